// The history of a job from its events: a lane for each attempt, and their time axis. Pure.

import { mark, percent } from "../words.js";

const ENDS = new Set(["completed", "failed", "cancelled"]);

// The events of one job, each once.
export class History {
  constructor() {
    this.events = [];
    this.seen = new Set();
  }

  add(event) {
    if (this.seen.has(event.id)) return false;
    this.seen.add(event.id);
    this.events.push(event);
    return true;
  }
}

export function storyOf(events) {
  const story = { lanes: [], state: "waiting", failures: 0, crashes: 0, progress: null, ended: false, last: null };
  let lane = null; // the running attempt
  let left = 0; // when the last attempt, or life, was over
  let wait = null; // since when the job waits for the next one, why, and until when by itself

  function leave(at, outcome, event) {
    if (!lane) story.lanes.push((lane = { attempt: null, worker: null, wait, started: null, steps: [] }));
    Object.assign(lane, { end: at, outcome, reason: event.reason, lost: event.reason === "lost", error: event.error, by: event.by, awaits: event.signal ?? "children" });
    lane = null;
    left = at;
  }

  for (const event of events) {
    const at = Date.parse(event.time);
    const later = Date.parse(event.retryAt || event.until || "") || null;
    story.last = event;
    switch (event.status) {
      case "queued":
        wait = { from: at, why: "waiting", until: null };
        break;
      case "started":
        lane = { attempt: event.attempt, worker: event.workerId, wait, started: at, at, steps: [], end: null, outcome: null };
        story.lanes.push(lane);
        story.state = "running";
        story.progress = null;
        break;
      case "progress":
        if (!lane) break;
        lane.steps.push({ id: event.id, step: event.step, of: event.of, message: event.message, from: lane.at, to: at });
        lane.at = at;
        story.progress = percent(event);
        break;
      case "superseded":
        if (event.reason === "lost") story.crashes++;
        leave(at, "superseded", event);
        wait = { from: at, why: "waiting", until: null };
        story.state = "waiting";
        break;
      case "retrying":
        story.failures++;
        leave(at, "retrying", event);
        wait = { from: at, why: "retry", until: later };
        story.state = "delayed";
        break;
      case "delayed":
        wait = { from: lane || !wait ? at : wait.from, why: "delayed", until: later };
        if (lane) leave(at, "delayed", event);
        story.state = "delayed";
        break;
      case "awaiting":
        if (lane) leave(at, "awaiting", event);
        wait = { from: at, why: event.for ?? "children", until: null };
        story.state = "awaiting";
        break;
      case "cancelling":
        if (lane) lane.cancelling = at;
        break;
      case "reopened":
        wait = { from: left || at, why: "reopened", until: at };
        story.state = "waiting";
        story.failures = story.crashes = 0;
        break;
      default:
        if (!ENDS.has(event.status)) break;
        if (event.status === "failed" && event.reason === "lost") story.crashes++;
        else if (event.status === "failed" && !event.reason) story.failures++;
        leave(at, event.status, event);
        wait = null;
        story.state = event.status;
    }
    story.ended = ENDS.has(story.state);
  }
  if (!lane && wait) story.lanes.push({ attempt: null, worker: null, wait, started: null, steps: [], end: null, outcome: null });
  story.running = lane;
  return story;
}

const NICE = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const niceStep = (seconds) => NICE.find((step) => step >= seconds) ?? Math.ceil(seconds / 86400) * 86400;

// How many milliseconds attempts ran.
export const workOf = (lanes, now) => lanes.reduce((sum, { started, end }) => sum + (started ? (end ?? now) - started : 0), 0);

// The stretches from `first` to `last` in which no attempt ran.
function idleOf(lanes, now, first, last) {
  const idle = [];
  let from = first;
  for (const { started, end } of lanes) {
    if (!started) continue;
    if (started > from) idle.push({ from, to: started });
    from = Math.max(from, end ?? now);
  }
  return last > from ? [...idle, { from, to: last }] : idle;
}

// The place of each moment, in per cent. Work keeps its proportions; long times without work are cut, and `breaks` says
// where. While the job goes on, the axis ends at a round time, and lanes grow into the rest.
export function axisOf(lanes, now, ended) {
  const first = lanes[0]?.wait?.from ?? lanes[0]?.started ?? now;
  const rest = ended ? 0 : (lanes.at(-1)?.wait?.until ?? 0); // a wait that ends by itself is drawn to its end
  const last = Math.max(first + 100, ...lanes.map((lane) => lane.end ?? Math.max(now, lane.started ? 0 : rest)));
  const idle = idleOf(lanes, now, first, last);
  const work = workOf(lanes, now);
  const most = work > 0 ? Math.max((0.4 * work) / idle.filter(({ from, to }) => to - from > 1000).length, 1000) : Infinity;
  const shortened = idle.filter(({ from, to }) => to - from > 1.5 * most).map((cut) => ({ ...cut, gain: cut.to - cut.from - most }));
  const saved = shortened.reduce((sum, { gain }) => sum + gain, 0);
  const shown = (at) => {
    let place = at - first;
    for (const cut of shortened) {
      if (at >= cut.to) place -= cut.gain;
      else if (at > cut.from) place -= (cut.gain * (at - cut.from)) / (cut.to - cut.from);
    }
    return place;
  };
  const length = last - first - saved;
  const step = niceStep(length / 6000) * 1000;
  const grows = !ended && lanes.at(-1)?.started;
  const span = !grows ? length : Math.ceil((length * 1.02) / step) * step;
  const at = (ms) => Math.min(100, Math.max(0, (100 * shown(ms)) / span));
  const ticks = [];
  const beyond = first + span + saved;
  for (const [from, to] of openStretches(first, beyond, shortened)) {
    // Where a stretch begins, and each round time after it.
    for (let tick = from - first; first + tick <= to && ticks.length < 20; tick = (Math.floor(tick / step) + 1) * step) {
      const [place, words] = [at(first + tick), mark(tick / 1000)];
      if (!ticks.length || (place - ticks.at(-1).place > 9 && words !== ticks.at(-1).words)) ticks.push({ place, words });
    }
  }
  return { at, ticks, breaks: shortened.map(({ from, to }) => (at(from) + at(to)) / 2) };
}

function openStretches(first, last, cuts) {
  const stretches = [];
  let from = first;
  for (const cut of cuts) {
    stretches.push([from, cut.from]);
    from = cut.to;
  }
  return [...stretches, [from, last]];
}

// At most this many segments in a lane: neighbours are drawn as one.
export function gathered(steps, most) {
  const size = Math.ceil(steps.length / most);
  if (size <= 1) return steps;
  const groups = [];
  for (let i = 0; i < steps.length; i += size) {
    const group = steps.slice(i, i + size);
    const [one, other] = [group[0], group.at(-1)];
    groups.push({ ...other, from: one.from, step: group.length > 1 ? `${one.step}–${other.step}` : one.step });
  }
  return groups;
}
