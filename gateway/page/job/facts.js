// Beside the events of a job: its args, the saved results of its steps, its result or its error.

import { ask } from "../api.js";
import { draw, h } from "../dom.js";
import { pretty } from "../words.js";

const fact = (name, text) => text && h("div", { class: "fact", key: name }, h("h2", null, name), h("pre", { tabindex: "0" }, text));

// `saved` has the result of each step by its name; null: not read yet. `open` opens or closes one.
export function showFacts(room, { args, saved, story, events, open }) {
  const end = story.ended ? story.last : null;
  const error = events.findLast((event) => event.error)?.error;
  draw(room,
    args && (args.kept ? fact("Args", pretty(args.args))
      : h("div", { key: "gone" }, h("h2", null, "Args"), h("p", { class: "dim" }, "Not kept: the args of a job are deleted when it completes."))),
    saved.size > 0 && h("div", { class: "fact", key: "saved" }, h("h2", null, "Saved steps"),
      [...saved].map(([name, value]) => h("div", { key: name, class: "saved" },
        h("button", { type: "button", class: "small", "aria-expanded": String(value != null), onclick: () => open(name) }, name), value != null && h("pre", { tabindex: "0" }, value)))),
    end?.status === "completed" && fact("Result", pretty(end.result ?? null)),
    error && fact(story.state === "failed" ? "Error" : "Last error", [`${error.type}: ${error.message}`, error.traceback].filter(Boolean).join("\n\n")));
}

export const readSaved = (path, name) =>
  ask(`${path}/steps?name=${encodeURIComponent(name)}`).then(({ data }) => pretty(data.value), (error) => error.message);
