// What happens on many jobs, as it happens: a single EventSource, opened again by ourselves, closed while nobody looks.
// It repeats nothing: whoever hears that something was `missed` asks how things stand.

import { link, pause } from "/page/api.js";

const STEADY_MS = 10_000; // one that ends sooner brought more than we could read, or nothing

export function hear(path, { event, missed }) {
  let source, timer;
  let failures = 0;
  let opened = Infinity; // since when it is

  function open() {
    close();
    opened = Infinity;
    if (document.hidden) return;
    source = new EventSource(path);
    source.onopen = () => (opened = Date.now());
    source.onmessage = (message) => event(JSON.parse(message.data));
    source.addEventListener("reset", missed);
    source.onerror = () => {
      close();
      if (link.state === "signed out") return;
      failures = Date.now() - opened > STEADY_MS ? 0 : failures + 1;
      timer = setTimeout(open, pause(failures));
      missed();
    };
  }

  function close() {
    clearTimeout(timer);
    source?.close();
  }

  document.addEventListener("visibilitychange", open);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (shown) => shown.persisted && open());
  open();
}
