// A gateway with keys asks for one. The key itself is not kept: the browser gets a cookie that no script can read.

import { act, Problem } from "/page/api.js";

const by = (id) => document.getElementById(id);

export function signIn() {
  if (by("signin").open) return;
  by("signin").showModal();
  by("signin").oncancel = (event) => event.preventDefault();
  by("signin-form").onsubmit = async (event) => {
    event.preventDefault();
    try {
      await act("/api/session", { key: by("signin-key").value.trim() });
      location.reload();
    } catch (error) {
      by("signin-wrong").textContent = error instanceof Problem && error.status === 401 ? "This key is not known here." : error.message;
    }
  };
}
