// Messages, buttons that act, and parts of the page that load when used.

import { link } from "./api.js";
import { h } from "./dom.js";
import { home } from "./words.js";

const line = document.getElementById("said");
let fading;

export function say(words, tone = "") {
  line.textContent = words;
  line.dataset.tone = tone;
  line.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => line.classList.remove("shown"), 6000);
}

// For screen readers only.
export function whisper(words) {
  if (!line.classList.contains("shown")) line.textContent = words;
}

// Do something and say how it went; the answer is null when it failed.
export async function attempt(what, words) {
  try {
    const answer = await what();
    say(words(answer));
    return answer;
  } catch (error) {
    say(error.status ? error.message : "The gateway did not answer; it is not known whether this was done.", "fail");
    return null;
  }
}

export const sheet = (name) => new Promise((done) =>
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${home}page/${name}.css`, onload: done, onerror: done })));

// Null, with a message, when it cannot be loaded.
export const part = (name) => import(`${home}page/${name}.js`).catch(() => {
  say(`${name}.js could not be loaded. Reload the page once the gateway answers.`, "fail");
  return null;
});

// A button that acts: hidden without its scope, disabled while the connection is lost.
export const action = (words, needs, onclick, { class: tone = "", ...more } = {}) =>
  h("button", { type: "button", class: `${tone} needs-${needs}`.trim(), disabled: link.state === "lost", onclick, ...more }, words);

// Whether to do it; `tone` danger: it cannot be undone.
export const confirm = async (title, text, yes, tone) => (await part("dialogs/dialog"))?.confirm(title, text, yes, tone);
export const showKeys = async () => (await part("dialogs/dialog"))?.showKeys();
export const openSubmit = async (given) => (await part("dialogs/submit"))?.openSubmit(given);
