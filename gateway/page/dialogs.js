// What is asked of a person and what is told: one question before what cannot be undone, a word about what was done.

import { Problem } from "/page/api.js";

const by = (id) => document.getElementById(id);
let fading;

export function say(words, tone = "") {
  const line = by("said");
  line.textContent = words;
  line.dataset.tone = tone;
  line.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => line.classList.remove("shown"), 6000);
}

// For screen readers alone: what changed, without a line on the screen.
export function whisper(words) {
  const line = by("said");
  if (!line.classList.contains("shown")) line.textContent = words;
}

export function confirm(title, text, yes) {
  const dialog = by("confirm");
  by("confirm-title").textContent = title;
  by("confirm-text").textContent = text;
  by("confirm-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((answer) => {
    dialog.onclose = () => answer(dialog.returnValue === "yes");
  });
}

// Do something and say what came of it; the answer is null when it was refused.
export async function attempt(what, words) {
  try {
    const answer = await what();
    say(words(answer));
    return answer;
  } catch (error) {
    say(error instanceof Problem ? error.message : "The gateway did not answer; nothing is known to have changed.", "fail");
    return null;
  }
}

// The form for a new job; it comes when it is first asked for.
export async function openSubmit(given) {
  (await import("/page/submit.js")).openSubmit(given);
}

export function prepareDialogs() {
  by("submit-open").onclick = () => openSubmit();
  by("help-open").onclick = () => by("help").showModal();
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.id !== "signin" && dialog.close());
  }
}
