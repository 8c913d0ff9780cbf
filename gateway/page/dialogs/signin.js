// Sign in with an API key. The page does not keep the key: the browser gets a cookie that no script can read.

import { act, Problem } from "../api.js";
import { h } from "../dom.js";
import { dialog } from "./dialog.js";

const by = (id) => document.getElementById(id);

export function signIn() {
  if (by("signin")?.open) return;
  const box = dialog("signin", "Sign in", h("form", { id: "signin-form", onsubmit: send },
    h("label", null, "API key ", h("input", { id: "signin-key", type: "password", required: true, autocomplete: "off" })),
    h("p", { id: "signin-wrong", class: "wrong", role: "alert" }),
    h("menu", null, h("button", { class: "primary" }, "Sign in"))));
  box.oncancel = (event) => event.preventDefault();
}

async function send(event) {
  event.preventDefault();
  try {
    await act("/api/session", { key: by("signin-key").value.trim() });
    location.reload();
  } catch (error) {
    by("signin-wrong").textContent = error instanceof Problem && error.status === 401 ? "This key is not valid." : error.message;
  }
}
