// Why a job waits, and what is known of late writes: a few words where they matter.

import { h } from "/page/dom.js";
import { about, clock, count, jobPath, ordinal } from "/page/words.js";

// "3rd in line", and a sentence for each thing that it waits for, the decisive one first.
export function waitingLines(waiting, now) {
  if (!waiting) return null;
  const { position, positionExact } = waiting;
  const place = position == null ? null : position === 1 ? "next in line" : `${positionExact ? "" : "at least "}${ordinal(position)} in line`;
  return h("div", { class: "why-waiting", key: "waiting" },
    place && h("p", null, place),
    h("ul", null, waiting.for.filter(({ reason }) => reason !== "next").map((each) => h("li", { key: each.reason + (each.job ?? "") }, sentence(each, now)))));
}

// The gateway's own sentence; the job in it is a link, and the times in it are said as everywhere here.
function sentence({ detail, job, until }, now) {
  const left = until && (Date.parse(until) - now) / 1000;
  const told = detail.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => `${clock(time)}${time === until && left > 1 ? `, in ${about(left)}` : ""}`);
  const [before, ...after] = job ? told.split(job) : [told];
  return [before, after.length > 0 && h("a", { href: jobPath(job) }, job), after.join(job)];
}

// Writes that came after a takeover were refused by the store and are nowhere in the history. How many there were only
// their worker knows, and tells for as long as it lives.
export function fencedLine(lanes, refused) {
  const lost = lanes.filter((lane) => lane.outcome === "superseded" && lane.reason === "lost");
  if (!lost.length) return null;
  const told = refused.map(({ writes, worker }) => `${count(writes, "write")} by ${worker}`);
  return h("p", { class: "fenced", key: "fenced" }, told.length ? `ignored after takeover: ${told.join(", ")} (fenced)`
    : `fenced: whatever ${[...new Set(lost.map((lane) => lane.worker))].join(", ")} may still write is refused`);
}
