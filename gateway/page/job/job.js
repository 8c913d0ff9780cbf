// One job: its lanes, its events as they come, its args and its result.

import { ask, link } from "../api.js";
import { action, openSubmit, part, whisper } from "../controls.js";
import { draw, h } from "../dom.js";
import { clock, day, duration, exact, home, keyOf, listPath, now, precise, pretty, TONES } from "../words.js";
import { follow } from "./follow.js";
import { History, storyOf, workOf } from "./lanes.js";
import { timeline } from "./timeline.js";

const PIECE = 500; // events in the log, unless asked for more
const QUIET_MS = 3000; // without news for so long, ask whether its worker still beats
const ASK_MS = 2000;
const WAITING = ["waiting", "delayed", "awaiting"];

export async function show(main, id) {
  const path = `/api/jobs/${encodeURIComponent(id)}`;
  const rooms = ["head", "lanes", "flow", "log", "facts"].map((name) => main.appendChild(Object.assign(document.createElement("section"), { className: `job-${name}` })));
  const [head, lanes, flow, log, facts] = rooms;
  const opened = new Set(); // events that are shown whole
  let job = null;
  let args = null;
  let saved = new Map(); // the saved result of each step; null: not read yet
  let history = new History();
  let fresh = null; // the history after a reset, until its first event is here
  let story = storyOf([]);
  let skew = 0; // how far this machine's clock is ahead of the store's
  let began = 0;
  let live = []; // the delays of the last live events
  let silent = null; // for how long its worker has not beaten
  let refused = null; // late writes, as their workers count them
  let details = null; // the part that shows these; it loads when it is needed
  let beside = null; // the part that shows args, saved steps and result; it loads after the first events
  let lookAtFlow = null;
  let read = "";
  let shown = PIECE;
  let framed = false;
  let tail = false; // whether the log scrolls with new events


  const reopen = (await load()) && follow(id, {
    event(event) {
      if (fresh) [history, fresh, shown] = [fresh, null, PIECE];
      if (!history.add(event)) return;
      measure(event);
      silent = null;
      if (!["queued", "progress"].includes(event.status)) {
        whisper(`${event.status}${event.attempt ? `, attempt ${event.attempt}` : ""}`);
        if (began) setTimeout(load, 100);
      }
      soon();
    },
    reset() {
      fresh = new History();
    },
    ended: () => storyOf(history.events).ended,
    gone: async () => !(await load()),
  });
  if (!reopen) return;
  began = Date.now();
  tail = !job?.endedAt;
  part("job/facts").then((loaded) => ((beside = loaded), showFacts()));
  part("job/flow").then((loaded) => (lookAtFlow = loaded?.watchFlow(flow, path))?.(job));
  setInterval(() => !story.ended && !document.hidden && history.events.length && (showLanes(), showHead()), 250);
  setInterval(wonder, ASK_MS);
  setTimeout(wonder, 300);
  document.addEventListener("redraw", () => history.events.length && showAll());

  // Read the job; false: there is no such job.
  async function load() {
    try {
      job = (await ask(path)).data;
      args ??= await ask(`${path}/args`).then((answer) => answer.data, () => null);
      const { steps } = await ask(`${path}/steps`).then((answer) => answer.data, () => ({ steps: [] }));
      saved = new Map(steps.map((name) => [name, saved.get(name) ?? null]));
      if (history.events.length) soon();
      lookAtFlow?.(job);
      return true;
    } catch (error) {
      if (error.status !== 404) return true;
      link.up("connected");
      history = new History(); // so nothing more is drawn
      rooms.slice(1).forEach((room) => draw(room));
      draw(head, h("p", { class: "empty" }, `There is no job ${id}, or it is no longer kept. A job id is <platform>.<key>. `, h("a", { href: home }, "All platforms")));
      document.title = "no such job · Tailrace";
      return false;
    }
  }

  function measure(event) {
    const delay = Date.now() - Date.parse(event.time);
    if (began && Date.now() - began > 1500) live = [...live, delay].slice(-20);
    skew = live.length ? Math.min(...live) : Math.min(skew, delay);
  }

  // Read the facts that are not in events.
  async function wonder() {
    if (document.hidden || !history.events.length) return;
    const waits = WAITING.includes(story.state);
    if (waits) await load();
    const last = story.last && Date.parse(story.last.time);
    const worried = story.running && Date.now() - skew - last > QUIET_MS;
    const curious = story.crashes > 0 && (!story.ended || Date.now() - last < 60_000 || !refused);
    if (!worried && !curious && !waits) return;
    details ??= await import("./waiting.js").catch(() => null);
    if (details) ({ refused, silent } = (await details.askWorkers(id, story.running?.worker, story.ended ? 0 : last + skew)) ?? { refused, silent: null });
    showHead();
    showLanes();
  }

  // The actions load when the first one is used.
  const act = async (what, more) => (await part("job/actions"))?.[what]({ id, path, story, reopen, log, ...more });


  function soon() {
    if (framed) return;
    framed = true;
    // A hidden page draws nothing but its title.
    const next = document.hidden ? (then) => setTimeout(then, 200) : requestAnimationFrame;
    next(() => {
      framed = false;
      story = storyOf(history.events);
      showAll();
    });
  }

  function showAll() {
    showHead();
    showLanes();
    showLog();
    showFacts();
  }

  function status() {
    if (story.state === "running" && silent != null) return "silent";
    if (story.running?.cancelling) return "cancelling";
    const until = story.lanes.at(-1)?.wait?.until;
    return story.state === "delayed" && until && until < now() - skew ? "waiting" : story.state;
  }

  function showHead() {
    const word = status();
    const progress = story.ended ? null : story.progress;
    document.title = `${progress != null ? `${Math.round(progress)} %` : word} · ${keyOf(id)}`;
    const took = workOf(story.lanes, now() - skew) / 1000;
    const limits = job?.limits ?? {};
    draw(head,
      h("div", { class: "title" },
        h("a", { href: home, class: "back" }, "platforms"),
        h("h1", null, h("code", null, id)),
        h("button", { type: "button", class: "small", onclick: () => act("copy") }, "copy"),
        h("span", { class: "acts" },
          !story.ended && !story.running?.cancelling && action("cancel", "act", () => act("cancel"), { key: "cancel", class: "danger" }),
          ["failed", "cancelled"].includes(story.state) && [
            action("retry", "act", () => ((tail = true), act("retry")), { key: "retry", class: "primary" }),
            action("drop", "act", () => act("drop"), { key: "drop", class: "danger" })],
          action("edit and submit…", "submit", () => openSubmit({ platform: job?.platform, kind: job?.kind, args: args?.kept ? args.args : undefined, from: id }), { key: "again" }),
          h("a", { class: "button", key: "raw", href: path }, "raw JSON"))),
      h("p", { class: "facts" },
        h("span", { class: `chip tone-${TONES[word]}`, id: "state" }, word),
        progress != null && h("span", { class: "num" }, `${Math.round(progress)} %`),
        story.lanes.at(-1)?.attempt && h("span", null, `attempt ${story.lanes.at(-1).attempt}`),
        took > 0 && h("span", { class: "num", title: "running time of all attempts" }, `took ${duration(took)}`),
        job && [h("a", { href: listPath(job.platform, "active") }, job.platform), h("span", null, job.kind),
          job.priority !== "normal" && h("span", null, `${job.priority} priority`)],
        story.failures > 0 && h("span", null, `failures ${story.failures}${limits.attempts ? ` of ${limits.attempts}` : ""}`),
        story.crashes > 0 && h("span", null, `workers lost ${story.crashes}${limits.crashes ? ` of ${limits.crashes}` : ""}`),
        job && h("span", { class: "dim", title: exact(job.createdAt) }, `accepted ${clock(job.createdAt)}`)),
      WAITING.includes(word) && details?.waitingLines(job?.waiting, now() - skew));
  }

  function showLanes() {
    draw(lanes, h("h2", { class: "unseen" }, "Attempts"),
      timeline(story, now() - skew, { read: readOut, open: openStep, silent }),
      details?.fencedLine(story.lanes, refused ?? []),
      h("p", { class: "readout", key: "readout" }, read || (story.lanes.some((lane) => lane.steps.length) && "Point at a step to read its message; click it to open its event.")));
  }

  function readOut(text) {
    read = text;
    draw(lanes.querySelector(".readout"), text);
  }

  function showLog() {
    const events = history.events;
    const box = log.querySelector(".events");
    const following = tail && (!box || box.scrollHeight - box.scrollTop - box.clientHeight < 40);
    const hidden = Math.max(0, events.length - shown);
    draw(log, h("div", { class: "head" }, h("h2", null, "Events"), h("p", null, `${events.length}${story.ended ? "" : ", live"}`)),
      h("ol", { class: "events", tabindex: "0", "aria-label": "events" },
        hidden > 0 && h("li", { key: "earlier" }, h("button", { type: "button", onclick: () => ((shown *= 4), showLog()) }, `show earlier events (${hidden})`)),
        events.slice(hidden).map((event, i, all) => [day(event.time) !== (i ? day(all[i - 1].time) : "") && h("li", { key: `day ${event.id}`, class: "day" }, day(event.time) || "today"), eventRow(event)])));
    const grown = log.querySelector(".events");
    if (following) grown.scrollTop = grown.scrollHeight;
  }

  function eventRow(event) {
    const turn = () => {
      opened[opened.has(event.id) ? "delete" : "add"](event.id);
      showLog();
    };
    return h("li", { key: event.id, "data-id": event.id, "data-row": true, tabindex: "-1", "aria-expanded": String(opened.has(event.id)),
      onclick: (click) => !click.target.closest("pre") && getSelection().isCollapsed && turn(), onkeydown: (key) => key.key === "Enter" && turn() },
      h("time", { title: exact(event.time), datetime: event.time }, precise(event.time)),
      h("span", { class: "n" }, event.attempt ?? "–"),
      h("span", { class: `tone-${TONES[event.status] ?? "wait"} status` }, event.status),
      h("span", { class: "text" }, textOf(event)),
      opened.has(event.id) && h("pre", null, pretty(event)));
  }

  // A step opens its event and the result that was saved under its name.
  function openStep(eventId, step) {
    shown = Math.max(shown, history.events.length - history.events.findIndex((event) => event.id === eventId));
    opened.add(eventId);
    showLog();
    act("light", { eventId });
    if (saved.has(String(step)) && saved.get(String(step)) == null) openSaved(String(step));
  }

  async function openSaved(name) {
    saved.set(name, saved.get(name) == null ? await beside?.readSaved(path, name) : null);
    showFacts();
  }

  function showFacts() {
    beside?.showFacts(facts, { args, saved, story, events: history.events, open: openSaved });
  }
}

// The details of an event beside its status. The message is a text node, exactly as it was sent.
function textOf(event) {
  const step = event.step != null && h("b", null, `${event.step}${event.of ? ` of ${event.of}` : ""}`);
  const facts = [
    event.signal && `the signal ${event.signal}`, event.pending && `children: ${event.pending}`, event.reason, event.by && `by ${event.by}`, event.error && `${event.error.type}: ${event.error.message}`,
    event.retryAt && `again at ${clock(event.retryAt)}`, event.until && `until ${clock(event.until)}`,
    event.status === "started" && event.workerId, event.data != null && JSON.stringify(event.data),
  ].filter(Boolean).join(" · ");
  return [step, event.message != null && h("span", { class: "message" }, event.message), facts && h("span", { class: "dim" }, facts)];
}
