// One job's events: a single EventSource, opened again by ourselves, with the id of the last event that arrived.
//
// A browser gives up for good on any answer that is not a stream, for example a proxy's 502. So it never decides here:
// whatever breaks is closed, and opened anew after a pause that grows.

import { link, pause } from "/page/api.js";

const QUIET_MS = 700; // open for so long without an end: it is live, even when nothing has happened

export function follow(jobId, { event, reset, ended, gone }) {
  let source, timer, settling;
  let expecting = false; // somebody gave an ended job another life
  let last = "";
  let failures = 0;

  function open() {
    clearTimeout(timer);
    source?.close();
    const query = last ? `?lastEventId=${encodeURIComponent(last)}` : "";
    source = new EventSource(`/research/stream/${encodeURIComponent(jobId)}${query}`);
    source.onopen = () => (settling = setTimeout(live, QUIET_MS));
    source.onmessage = (message) => {
      live();
      expecting = false;
      last = message.lastEventId || last;
      event(JSON.parse(message.data));
    };
    source.addEventListener("reset", () => {
      last = "";
      reset();
    });
    source.addEventListener("end", () => {
      close();
      link.up("complete");
    });
    source.onerror = broken;
  }

  function live() {
    failures = 0;
    clearTimeout(settling);
    if (link.state !== "live") link.up();
  }

  async function broken() {
    close();
    if (ended() && !expecting) return link.up("complete");
    if (link.state === "signed out" || (failures > 0 && (await gone()))) return;
    const wait = pause(failures++);
    link.down(wait);
    timer = setTimeout(open, wait);
  }

  function close() {
    clearTimeout(settling);
    clearTimeout(timer);
    source.close();
  }

  addEventListener("online", () => link.state === "lost" && open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", (shown) => shown.persisted && open());
  open();
  return () => {
    expecting = true;
    open();
  };
}
