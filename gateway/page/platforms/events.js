// The events of many jobs as they happen: one EventSource that the page itself opens again, closed while the page is
// hidden. No event is repeated: on `missed` the view reads the present state.

import { link, pause, urlOf } from "../api.js";

const STEADY_MS = 10_000; // one that ends sooner brought more than we could read, or nothing

export function hear(path, { event, missed }) {
  let source, timer;
  let failures = 0;
  let opened = 0; // since when it is, or 0
  let before = false; // whether it ever was

  function open() {
    close();
    if (document.hidden || link.state === "signed out") return;
    source = new EventSource(urlOf(path));
    source.onopen = () => {
      opened = Date.now();
      if (before) missed(); // not earlier: only now does the gateway answer
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
