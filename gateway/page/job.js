// One job: its lanes, its events as they come, what it was asked and what came of it.

import { act, ask, Problem } from "/page/api.js";
import { attempt, confirm, openSubmit, say, whisper } from "/page/dialogs.js";
import { draw, h } from "/page/dom.js";
import { follow } from "/page/follow.js";
import { History, storyOf } from "/page/lanes.js";
import { timeline } from "/page/timeline.js";
import { clock, duration, exact, keyOf, listPath, pretty, TONES } from "/page/words.js";

const PIECE = 500; // events in the log, unless asked for more
const QUIET_MS = 3000; // without news for so long, ask whether its worker still beats

export async function showJob(main, id) {
  const path = `/api/jobs/${encodeURIComponent(id)}`;
  const rooms = ["head", "lanes", "log", "facts"].map((name) => main.appendChild(Object.assign(document.createElement("section"), { className: `job-${name}` })));
  const [head, lanes, log, facts] = rooms;
  const readout = h("p", { class: "readout" }, "");
  let job = null;
  let args = null;
  let history = new History();
  let fresh = null; // the history after a reset, until its first event is here
  let story = storyOf([]);
  let skew = 0; // how far this machine's clock is ahead of the store's
  let opened = 0;
  let live = []; // the delays of events that came while we watched
  let silent = null;
  let read = "";
  let shown = PIECE;
  let framed = false;

  // News

  const reopen = (await load()) && follow(id, {
    event(event) {
      if (fresh) [history, fresh, shown] = [fresh, null, PIECE];
      if (!history.add(event)) return;
      measure(event);
      silent = null;
      if (["started", "superseded", "retrying", "completed", "failed", "cancelled"].includes(event.status)) {
        whisper(`${event.status}${event.attempt ? `, attempt ${event.attempt}` : ""}`);
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
  opened = Date.now();
  setInterval(() => !story.ended && !document.hidden && history.events.length && (showLanes(), showHead()), 250);
  setInterval(listen, 2000);

  async function load() {
    try {
      job = (await ask(path)).data;
      args ??= await ask(`${path}/args`).then((answer) => answer.data, () => null);
      return true;
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) return true;
      rooms.slice(1).forEach((room) => draw(room));
      draw(head, h("p", { class: "empty" }, `There is no job ${id}, or it is no longer kept. Jobs that run: `, h("a", { href: "/" }, "overview"), "."));
      document.title = "no such job · Tailrace";
      return false;
    }
  }

  function measure(event) {
    const delay = Date.now() - Date.parse(event.time);
    if (opened && Date.now() - opened > 1500) live = [...live, delay].slice(-20);
    skew = live.length ? Math.min(...live) : Math.min(skew, delay);
  }

  async function listen() {
    const last = story.last && Date.parse(story.last.time);
    if (document.hidden || !story.running || Date.now() - skew - last < QUIET_MS) return;
    const { data } = await ask("/api/v2/workers/status").catch(() => ({ data: { workers: [] } }));
    const worker = data.workers.find((each) => each.worker_id === story.running?.worker);
    if (!worker) return;
    const age = worker.last_change_seconds ?? worker.watched_seconds;
    silent = worker.alive === false || age > Math.max(3, 0.4 * (worker.deadline_seconds ?? 10)) ? age : null;
  }

  // What is seen

  function soon() {
    if (framed) return;
    framed = true;
    // A page nobody looks at gets no frames, and its title still has to tell the progress.
    const next = document.hidden ? (then) => setTimeout(then, 200) : requestAnimationFrame;
    next(() => {
      framed = false;
      story = storyOf(history.events);
      showHead();
      showLanes();
      showLog();
      showFacts();
    });
  }

  function status() {
    if (story.state === "active" && silent != null) return "silent";
    if (story.running?.cancelling) return "cancelling";
    const until = story.lanes.at(-1)?.wait?.until;
    return story.state === "delayed" && until && until < Date.now() - skew ? "waiting" : story.state;
  }

  function showHead() {
    const word = status();
    const progress = story.ended ? null : story.progress;
    document.title = `${progress != null ? `${Math.round(progress)} %` : word} · ${keyOf(id)}`;
    const first = story.lanes[0]?.started;
    const took = first ? ((story.ended ? Date.parse(story.last.time) : Date.now() - skew) - first) / 1000 : null;
    const limits = job?.limits ?? {};
    draw(head,
      h("div", { class: "title" },
        h("a", { href: "/", class: "back" }, "platforms"),
        h("h1", null, h("code", null, id)),
        h("button", { type: "button", class: "small", onclick: copy }, "copy"),
        h("span", { class: "acts" },
          !story.ended && !story.running?.cancelling && h("button", { type: "button", key: "cancel", class: "danger", onclick: cancel }, "cancel"),
          ["failed", "cancelled"].includes(story.state) && [
            h("button", { type: "button", key: "retry", class: "primary", onclick: retry }, "retry"),
            h("button", { type: "button", key: "drop", class: "danger", onclick: drop }, "drop")],
          h("button", { type: "button", key: "again", onclick: () => openSubmit({ platform: job?.platform, kind: job?.kind, args: args?.kept ? args.args : undefined }) }, "submit again…"),
          h("a", { class: "button", key: "raw", href: path }, "raw JSON"))),
      h("p", { class: "facts" },
        h("span", { class: `chip tone-${TONES[word]}`, id: "state" }, word),
        progress != null && h("span", { class: "num" }, `${Math.round(progress)} %`),
        story.lanes.at(-1)?.attempt && h("span", null, `attempt ${story.lanes.at(-1).attempt}`),
        took != null && h("span", { class: "num" }, duration(took)),
        job && [h("a", { href: listPath(job.platform, "active") }, job.platform), h("span", null, job.kind),
          job.priority !== "normal" && h("span", null, `${job.priority} priority`)],
        story.failures > 0 && h("span", null, `failures ${story.failures}${limits.attempts ? ` of ${limits.attempts}` : ""}`),
        story.crashes > 0 && h("span", null, `workers lost ${story.crashes}${limits.crashes ? ` of ${limits.crashes}` : ""}`),
        job && h("span", { class: "dim", title: exact(job.createdAt) }, `accepted ${clock(Date.parse(job.createdAt))}`)));
  }

  function showLanes() {
    const words = (text) => {
      read = text;
      draw(readout.at, text);
    };
    draw(lanes, h("h2", { class: "unseen" }, "Attempts"),
      timeline(story, Date.now() - skew, { read: words, open: openEvent, silent }),
      h("p", { class: "readout", key: "readout" }, read || "Point at a step, or move to it with tab, to read what it said."));
    readout.at = lanes.querySelector(".readout");
  }

  function showLog() {
    const events = history.events;
    const box = log.querySelector(".events");
    const following = !box || box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const hidden = Math.max(0, events.length - shown);
    draw(log, h("div", { class: "head" }, h("h2", null, "Events"), h("p", null, `${events.length}`)),
      h("ol", { class: "events", tabindex: "0", "aria-label": "events" },
        hidden > 0 && h("li", { key: "earlier" }, h("button", { type: "button", onclick: () => ((shown *= 4), showLog()) }, `show earlier ones (${hidden})`)),
        events.slice(hidden).map((event) =>
          h("li", { key: event.id, "data-id": event.id },
            h("time", { title: exact(event.time), datetime: event.time }, event.time.slice(11, 23)),
            h("span", { class: "n" }, event.attempt ?? "–"),
            h("span", { class: `tone-${TONES[event.status] ?? "wait"} status` }, event.status),
            h("span", { class: "text" }, textOf(event))))));
    const grown = log.querySelector(".events");
    if (following) grown.scrollTop = grown.scrollHeight;
  }

  function openEvent(eventId) {
    const index = history.events.findIndex((event) => event.id === eventId);
    if (history.events.length - index > shown) [shown] = [history.events.length - index, showLog()];
    showLog();
    const row = [...log.querySelectorAll("[data-id]")].find((each) => each.dataset.id === eventId);
    row?.scrollIntoView({ block: "center" });
    row?.classList.remove("lit");
    requestAnimationFrame(() => row?.classList.add("lit"));
  }

  function showFacts() {
    const end = story.ended ? story.last : null;
    const error = [...history.events].reverse().find((event) => event.error)?.error;
    draw(facts,
      args && (args.kept ? fact("Args", pretty(args.args))
        : h("div", { key: "gone" }, h("h2", null, "Args"), h("p", { class: "dim" }, "No longer kept: args go when a job completes."))),
      end?.status === "completed" && fact("Result", pretty(end.result ?? null)),
      error && fact(story.state === "failed" ? "Error" : "Last error", [`${error.type}: ${error.message}`, error.traceback].filter(Boolean).join("\n\n")));
  }

  // What is done

  async function copy() {
    try {
      await navigator.clipboard.writeText(id);
      say("The id is copied.");
    } catch {
      getSelection().selectAllChildren(head.querySelector("h1"));
      say("The id is selected: copy it with the keyboard.");
    }
  }

  async function cancel() {
    const running = story.running ? "Its attempt is asked to stop with the next beat." : "It has not started and never will.";
    if (!(await confirm("Cancel this job?", running, "Cancel the job"))) return;
    await attempt(() => act(`${path}/cancel`, { by: "the page" }), (answer) => (answer.status === "cancelling" ? "Its attempt was asked to stop." : "The job is cancelled."));
  }

  async function retry() {
    if (await attempt(() => act(`${path}/retry`, { by: "the page" }), () => "Back in line.")) reopen();
  }

  async function drop() {
    if (!(await confirm("Drop this job?", "It and its history are gone for good.", "Drop 1 job"))) return;
    if (await attempt(() => act(`${path}/drop`), () => "Dropped.")) location.href = "/";
  }
}

const fact = (name, text) => text && h("div", { class: "fact", key: name }, h("h2", null, name), h("pre", { tabindex: "0" }, text));

// What an event says beside its status. Exactly what was sent: the message is a text node of its own.
function textOf(event) {
  const step = event.step != null && h("b", null, `${event.step}${event.of ? ` of ${event.of}` : ""}`);
  const facts = [
    event.reason, event.by && `by ${event.by}`, event.error && `${event.error.type}: ${event.error.message}`,
    event.retryAt && `again at ${clock(Date.parse(event.retryAt))}`, event.until && `until ${clock(Date.parse(event.until))}`,
    event.status === "started" && event.workerId, event.data != null && JSON.stringify(event.data),
  ].filter(Boolean).join(" · ");
  return [step, event.message != null && h("span", { class: "message" }, event.message), facts && h("span", { class: "dim" }, facts)];
}
