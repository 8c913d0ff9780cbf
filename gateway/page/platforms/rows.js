// In rows of lists: how long ago, and long job ids in little space.

import { h } from "../dom.js";
import { duration, keyOf, now } from "../words.js";

export const since = (seconds) => (seconds < 1 ? "just now" : `${duration(seconds)} ago`);
export const ago = (iso) => (iso ? since((now() - Date.parse(iso)) / 1000) : "–");

// Generated keys are long and begin alike: their ends tell them apart.
const cut = (key) => (key.length > 28 ? key.length - 12 : 0);
export const short = (id) => {
  const key = keyOf(id);
  return cut(key) ? `…${key.slice(cut(key))}` : key;
};

// The same as an element: the hidden part is in the text, so a copied key is whole.
export const keyText = (id) => {
  const key = keyOf(id);
  return h("code", { class: "key" }, cut(key) > 0 && h("s", null, key.slice(0, cut(key))), key.slice(cut(key)));
};
