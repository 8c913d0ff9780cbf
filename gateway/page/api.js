// Requests to the gateway, and the state of the connection.

import { clock, home, stopAt } from "./words.js";

// The gateway refused a request; status 0: it did not answer.
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || (status ? `the gateway answered ${status}` : "the gateway does not answer"));
    this.status = status;
    this.field = body?.field;
  }
}

export const urlOf = (path) => home + path.slice(1);

async function send(path, options) {
  // Signed out, only a session can be asked for; after that the page loads again.
  if (link.state === "signed out" && path !== "/api/session") throw new Problem(401);
  const answer = await fetch(urlOf(path), { ...options, signal: AbortSignal.timeout(10_000) }).catch(() => ({ status: 0 }));
  const body = await answer.json?.().catch(() => null);
  if (answer.ok && (body || answer.status === 204)) return body;
  const status = answer.ok ? 0 : answer.status; // a body that cannot be read is no answer
  if (status === 401) link.up("signed out");
  const problem = new Problem(status, body);
  if (status === 503) link.why = body?.code === "STORE_AWAY" ? "the store does not answer" : problem.message;
  else if (!(status > 0 && status < 500)) link.why = "the gateway does not answer";
  throw problem;
}

export const ask = (path) => send(path, { headers: { Accept: "application/json" } });
export const act = (path, body = {}) =>
  send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const leave = (path) => send(path, { method: "DELETE" });

const LONGEST_MS = 15_000;
const OFFLINE_MS = 10_000; // without an answer for this long the page says that it is offline

// Doubles each time, with some chance, so that pages do not come back all at once.
export const pause = (failures) => Math.min(LONGEST_MS, 500 * 2 ** failures) * (0.8 + 0.4 * Math.random());

export const link = {
  state: "connecting",
  since: 0, // while it is lost: the moment that the page shows
  why: "", // what is wrong
  shown: false, // whether there was ever anything to show
  next: 0, // when it is tried again
  changed: () => {},

  up(state = "live") {
    this.since = this.next = 0;
    this.why = "";
    this.shown = true;
    stopAt(0);
    this.to(state);
  },
  down(ms, heard) {
    this.since ||= heard || Date.now();
    this.next = Date.now() + ms;
    stopAt(this.since);
    this.to("lost");
  },
  to(state) {
    const before = this.state;
    if (before === "signed out") return;
    this.state = state;
    this.changed(before);
  },
  get words() {
    if (this.state !== "lost") return this.state;
    const wait = Math.max(0, Math.ceil((this.next - Date.now()) / 1000));
    if (Date.now() - this.since > OFFLINE_MS) return `offline since ${clock(this.since)}`;
    return wait ? `reconnecting in ${wait} s` : "reconnecting";
  },
};

// Call `look` every `ms` while the page is visible, less often while it fails. Returns a function that looks at once.
// `told` gets null, or the milliseconds until the next try and the time of the last success.
const tellLink = (wait, heard) => (wait == null ? link.up() : link.down(wait, heard));

export function poll(look, ms = 2000, told = tellLink) {
  let timer;
  let failures = 0;
  let heard = 0;
  let busy = false;
  let again = false; // a look was asked for during this one
  async function once() {
    clearTimeout(timer);
    again = busy;
    if (document.hidden || busy) return;
    busy = true;
    try {
      await look();
      failures = 0;
      heard = Date.now();
      told(null);
      timer = setTimeout(once, ms);
    } catch (error) {
      if (!(error instanceof Problem)) console.error(error);
      if (error.status === 401) return;
      const wait = pause(++failures);
      told(wait, heard);
      timer = setTimeout(once, wait);
    } finally {
      busy = false;
    }
    if (again) once();
  }
  document.addEventListener("visibilitychange", once);
  addEventListener("online", once);
  once();
  return once;
}
