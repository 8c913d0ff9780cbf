// One job's events: an EventSource that the page opens again with the id of the last event. A browser gives up on an
// answer that is not a stream, such as a proxy's 502, and never on a dead connection.

import { link, pause, urlOf } from "../api.js";

const QUIET_MS = 700; // open for this long: it is live, even when nothing has happened
const OPEN_MS = 9000; // until an answer begins
const SILENT_MS = 25_000; // then it is opened again

export function follow(jobId, { event, reset, ended, gone }) {
  let source, timer, settling, silence;
  let expecting = false; // an ended job was retried
  let last = "";
  let failures = 0;

  function open() {
    clearTimeout(timer);
    source?.close();
    const query = last ? `?lastEventId=${encodeURIComponent(last)}` : "";
    source = new EventSource(urlOf(`/research/stream/${encodeURIComponent(jobId)}${query}`));
    hope(broken, OPEN_MS);
    source.onopen = () => {
      settling = setTimeout(live, QUIET_MS);
      hope(open, SILENT_MS);
    };
    source.onmessage = (message) => {
      live();
      hope(open, SILENT_MS);
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
      link.up("ended");
    });
    source.onerror = broken;
  }

  function hope(or, ms) {
    clearTimeout(silence);
    silence = setTimeout(or, ms);
  }

  function live() {
    failures = 0;
    clearTimeout(settling);
    if (link.state !== "live") link.up();
  }

  async function broken() {
    close();
    if (ended() && !expecting) return link.up("ended");
    if (link.state === "signed out" || (failures > 0 && (await gone()))) return;
    const wait = pause(failures++);
    link.down(wait);
    timer = setTimeout(open, wait);
  }

  function close() {
    clearTimeout(silence);
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
