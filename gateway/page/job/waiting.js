// Facts that are not in events: why a job waits, whether its worker still beats, and which late writes were refused.

import { ask, link } from "../api.js";
import { h } from "../dom.js";
import { clock, count, duration, jobPath } from "../words.js";

// An estimate, rounded.
const about = (seconds) => (seconds < 50 ? `${Math.max(1, Math.round(seconds))} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : duration(seconds));

const ordinal = (n) => `${n}${{ 1: "st", 2: "nd", 3: "rd" }[n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] ?? "th"}`;

// "3rd in the queue", and a sentence for each thing that the job waits for, the decisive one first.
export function waitingLines(waiting, now) {
  if (!waiting) return null;
  const { position, positionExact } = waiting;
  const place = position == null ? null : position === 1 ? "next in the queue" : `${positionExact ? "" : "at least "}${ordinal(position)} in the queue`;
  return h("div", { class: "why-waiting", key: "waiting" },
    place && h("p", null, place),
    h("ul", null, waiting.for.filter(({ reason }) => reason !== "next").map((each) => h("li", { key: each.reason + (each.job ?? "") }, sentence(each, now)))));
}

// The gateway's sentence, with its job as a link and its times in the zone of the page.
function sentence({ detail, job, until }, now) {
  const left = until && (Date.parse(until) - now) / 1000;
  const told = detail.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => `${clock(time)}${time === until && left > 1 ? `, in ${about(left)}` : ""}`);
  const [before, ...after] = job ? told.split(job) : [told];
  return [before, after.length > 0 && h("a", { href: jobPath(job) }, job), after.join(job)];
}

// The store refused writes that came after a takeover; the history does not have them. Only their worker can tell how
// many there were, for as long as it lives.
export function fencedLine(lanes, refused) {
  const lost = lanes.filter((lane) => lane.lost);
  if (!lost.length) return null;
  const told = refused.map(({ writes, worker }) => `${count(writes, "write")} by ${worker}`);
  return h("p", { class: "fenced", key: "fenced" }, told.length ? `ignored after takeover: ${told.join(", ")} (fenced)`
    : `fenced: later writes by ${[...new Set(lost.map((lane) => lane.worker))].join(", ")} are refused`);
}

let hung = false; // a stream may stay open and silent while nothing answers
let heard = 0;

// Of the job's worker: for how long it has not beaten, if that is long, and the late writes that workers count. Null:
// nothing answers, and the page shows what it was at `last`, the time of the last event (0: the job has ended), or later.
export async function askWorkers(id, worker, last) {
  const data = await ask("/api/v2/workers/status").then((answer) => answer.data, () => null);
  if (!data && last && link.state !== "signed out") {
    hung = true;
    link.down(2000, Math.max(heard, last));
  }
  if (!data) return null;
  heard = Date.now();
  if (hung) link.up();
  hung = false;
  const refused = data.workers.flatMap((each) => each.refused.filter((one) => one.job_id === id).map((one) => ({ ...one, worker: each.worker_id })));
  const its = data.workers.find((each) => each.worker_id === worker);
  const age = its && (its.last_change_seconds ?? its.watched_seconds);
  const silent = its && (its.alive === false || age > Math.max(3, 0.4 * (its.deadline_seconds ?? 10))) ? age : null;
  return { refused, silent };
}
