// The lanes of a job, drawn: one for each attempt, on one time axis.

import { h } from "../dom.js";
import { duration } from "../words.js";
import { axisOf, gathered } from "./lanes.js";

const WAITS = { waiting: "waiting", retry: "retry after", delayed: "delayed", children: "awaiting children", signal: "awaiting a signal", reopened: "retried after" };

// `read` shows what a segment says, `open` goes to its event; `silent` is for how long its worker has not beaten.
export function timeline(story, now, { read, open, silent }) {
  const axis = axisOf(story.lanes, now, story.ended);
  return [
    story.lanes.map((lane, index) => row(lane, story.lanes[index + 1], axis, now, { read, open, silent: lane === story.running ? silent : null })),
    h("div", { class: "axis", "aria-hidden": "true" }, breaks(axis), axis.ticks.map(({ place, words }) =>
      h("span", { style: { left: `${place}%` }, class: place > 94 ? "last" : null }, words))),
  ];
}

const breaks = (axis) => axis.breaks.map((place, i) => h("i", { key: `break ${i}`, class: "break", style: { left: `${place}%` } }));

function row(lane, next, axis, now, view) {
  const name = lane.attempt ? `attempt ${lane.attempt}` : "next attempt";
  const [verdict, tone] = verdictOf(lane, next, now, view.silent);
  return h("div", { class: `lane ${tone} ${lane.lost ? "broken" : ""}`, key: lane.attempt ?? `wait ${lane.wait?.from}`, role: "group", "aria-label": `${name}: ${verdict}` },
    h("div", { class: "lane-name" }, h("b", null, name), lane.worker && h("span", { class: "worker", title: lane.worker }, lane.worker)),
    h("div", { class: "track" },
      axis.ticks.map(({ place }) => h("i", { class: "grid", style: { left: `${place}%` } })),
      lane.wait && waiting(lane, axis, now, view),
      breaks(axis),
      lane.started && work(lane, name, axis, now, view)),
    h("div", { class: "lane-verdict" }, verdict));
}

function waiting(lane, axis, now, view) {
  const until = lane.wait.until ?? lane.wait.from;
  const to = lane.started ?? lane.end ?? Math.max(now, until);
  const resting = Math.min(until, to);
  const parts = [];
  const rested = resting > lane.wait.from;
  if (rested) parts.push(["resting", lane.wait.from, resting, WAITS[lane.wait.why]]);
  if (to > resting) parts.push(["waiting", resting, to, rested ? "waiting" : WAITS[lane.wait.why]]);
  const open = !lane.started && !lane.end;
  return [open && h("i", { key: "now", class: "now", style: { left: `${axis.at(now)}%` } }), parts.map(([kind, from, end, why]) => {
    const [left, right] = [axis.at(from), axis.at(end)];
    const said = `${why} ${duration((end - from) / 1000)}`;
    return h("span", { key: kind, class: kind, style: place(left, right), title: said,
      onpointerenter: () => view.read(said) }, h("span", null, h("span", null, said)));
  })];
}

const place = (left, right) => ({ left: `${left.toFixed(3)}%`, width: `${Math.max(0, right - left).toFixed(3)}%` });

function work(lane, name, axis, now, view) {
  const end = lane.end ?? now;
  const steps = gathered(lane.steps, innerWidth > 720 ? 120 : 60).map((step) => {
    const [left, right] = [axis.at(step.from), axis.at(step.to)];
    const label = `${name}, step ${step.step}${step.of ? ` of ${step.of}` : ""}, ${duration((step.to - step.from) / 1000)}`;
    const said = step.message ? `${label}: ${step.message}` : label;
    return h("button", { key: step.id, type: "button", class: "step", style: place(left, right), "aria-label": said,
      onpointerenter: () => view.read(said), onfocus: () => view.read(said), onclick: () => view.open(step.id, step.step) },
      h("span", null, step.step));
  });
  const [left, right] = [axis.at(lane.at), axis.at(end)];
  const { lost } = lane;
  const tail = lost ? `silent for ${duration((end - lane.at) / 1000)}` : "";
  return [
    steps,
    h("span", { key: "tail", class: `tail ${lost ? "lost" : ""}`, style: place(left, right), onpointerenter: () => view.read(tail || `${name}: running`) },
      tail && h("span", null, tail)),
    h("span", { key: "cap", class: "cap", style: { left: `${right}%` } }),
  ];
}

// How an attempt ended or stands, in words, and its colour.
function verdictOf(lane, next, now, silent) {
  const took = lane.started ? duration(((lane.end ?? now) - lane.started) / 1000) : "";
  switch (lane.outcome) {
    case "superseded":
      return [`superseded${next?.attempt ? ` by ${next.attempt}` : ""}: ${lane.lost ? "worker lost" : lane.reason || ""} · ${took}`, "lost"];
    case "retrying":
      return [`failed: ${lane.error?.type || "error"} · ${took}`, "retry"];
    case "delayed":
      return [`delayed · ${took}`, "wait"];
    case "awaiting":
      return [`awaiting ${lane.awaits} · ${took}`, "wait"];
    case "completed":
      return [`completed · ${took}`, "done"];
    case "failed":
      return [`failed: ${lane.lost ? "worker lost" : lane.error?.type || lane.reason || "error"}${took && ` · ${took}`}`, "fail"];
    case "cancelled":
      return [`cancelled${lane.by ? ` by ${lane.by}` : ""}${took && ` · ${took}`}`, "cancel"];
  }
  if (lane.started) {
    if (lane.cancelling) return [`cancelling · ${took}`, "cancel"];
    return silent != null ? [`silent for ${duration(silent)}`, "silent"] : [`running · ${took}`, "run"];
  }
  const rest = lane.wait.until ? (lane.wait.until - now) / 1000 : 0;
  if (rest > 0) return [`${lane.wait.why === "retry" ? "retry" : "starts"} in ${rest < 60 ? `${Math.ceil(rest)} s` : duration(rest)}`, lane.wait.why === "retry" ? "retry" : "wait"];
  return [`waiting for ${duration((now - Math.max(lane.wait.from, lane.wait.until || 0)) / 1000)}`, "wait"];
}
