// What happens on many jobs, as it happens: a single EventSource, opened again by ourselves, closed while nobody looks.
// It repeats nothing: whoever hears that something was `missed` asks how things stand.

import { link, pause } from "../api.js";

const STEADY_MS = 10_000; // one that ends sooner brought more than we could read, or nothing

export function hear(path, { event, missed }) {
  let source, timer;
  let failures = 0;
  let opened = 0; // since when it is, or 0
  let before = false; // whether it ever was

  function open() {
    close();
    if (document.hidden || link.state === "signed out") return;
    source = new EventSource(path);
    source.onopen = () => {
      opened = Date.now();
      if (before) missed(); // only now does anybody answer
      before = true;
    };
    source.onmessage = (message) => event(JSON.parse(message.data));
    source.addEventListener("reset", missed);
    source.onerror = () => {
      if (opened && Date.now() - opened > STEADY_MS) failures = 0;
      close();
      timer = setTimeout(open, pause(failures++));
    };
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    opened = 0;
  }

  document.addEventListener("visibilitychange", open);
  addEventListener("online", () => source?.readyState === EventSource.CLOSED && open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", (shown) => shown.persisted && open());
  open();
}
