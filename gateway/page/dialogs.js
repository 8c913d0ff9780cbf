// What is told to a person, and the way to what is asked of them, which comes when it is first needed.

const line = document.getElementById("said");
let fading;

export function say(words, tone = "") {
  line.textContent = words;
  line.dataset.tone = tone;
  line.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => line.classList.remove("shown"), 6000);
}

// For screen readers alone: what changed, without a line on the screen.
export function whisper(words) {
  if (!line.classList.contains("shown")) line.textContent = words;
}

// Do something and say what came of it; the answer is null when it was refused.
export async function attempt(what, words) {
  try {
    const answer = await what();
    say(words(answer));
    return answer;
  } catch (error) {
    say(error.status ? error.message : "The gateway did not answer; nothing is known to have changed.", "fail");
    return null;
  }
}

// A style sheet, once it is there.
export const sheet = (name) => new Promise((done) =>
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `/page/${name}.css`, onload: done, onerror: done })));

// One question before anything is done; the answer is whether it is to be done.
export const confirm = async (title, text, yes) => (await import("/page/asking.js")).confirm(title, text, yes);
export const showKeys = async () => (await import("/page/asking.js")).showKeys();
export const openSubmit = async (given) => (await import("/page/submit.js")).openSubmit(given);
