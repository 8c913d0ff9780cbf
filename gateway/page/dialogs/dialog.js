// Dialogs: one for any content, the question before an action, and the keyboard shortcuts.

import { sheet } from "../controls.js";
import { draw, h } from "../dom.js";
import { home } from "../words.js";

await sheet("dialogs/dialog");

// A dialog is created when it is first opened.
export function dialog(id, title, ...content) {
  let box = document.getElementById(id);
  if (!box) {
    box = document.body.appendChild(Object.assign(document.createElement("dialog"), { id }));
    box.setAttribute("aria-labelledby", `${id}-title`);
    box.addEventListener("click", (event) => event.target === box && id !== "signin" && box.close());
  }
  draw(box, h("h2", { id: `${id}-title` }, title), ...content);
  if (!box.open) box.showModal();
  return box;
}

export function confirm(title, text, yes, tone = "primary") {
  const no = yes.startsWith("Cancel") ? "Back" : "Cancel"; // beside "Cancel the job", "Cancel" could mean either
  const box = dialog("confirm", title, h("form", { method: "dialog" }, h("p", null, text),
    h("menu", null, h("button", { value: "no" }, no), h("button", { value: "yes", id: "confirm-yes", class: tone }, yes))));
  box.returnValue = "no";
  return new Promise((answer) => {
    box.onclose = () => answer(box.returnValue === "yes");
  });
}

const KEYS = [["/", "find a job by its id"], ["j k", "next row, previous row"], ["enter", "open the row"], ["n", "new job", "needs-submit"], ["u", "UTC or local time"], ["esc", "back"], ["?", "these shortcuts"]];

export const showKeys = () => dialog("help", "Keyboard shortcuts", h("form", { method: "dialog" },
  h("dl", null, KEYS.map(([keys, words, needs]) => [h("dt", { class: needs }, keys.split(" ").map((key) => h("kbd", null, key))), h("dd", { class: needs }, words)])),
  h("p", null, h("a", { href: `${home}docs` }, "HTTP API")),
  h("menu", null, h("button", null, "Close"))));
