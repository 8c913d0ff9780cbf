// Workers: where each runs, its jobs, its last beat, and how long its event loop was blocked.

import { act } from "../api.js";
import { action, attempt, confirm } from "../controls.js";
import { h } from "../dom.js";
import { bytes, count, duration, exact, jobPath } from "../words.js";
import { keyText, since } from "./rows.js";

const JOBS = 3; // named in a row
const SLOW_SECONDS = 0.25; // a loop that is late by more than this keeps its jobs waiting

// `older`: for how many seconds this is known.
export function workerTable({ workers, summary }, older, look) {
  if (!workers.length) {
    return h("section", { class: "workers", key: "workers" }, h("div", { class: "head" }, h("h2", null, "Workers")),
      h("p", { class: "empty" }, "No worker is alive. Start one: ", h("code", null, "python3 -m ops consume")));
  }
  return h("section", { class: "workers", key: "workers" },
    h("div", { class: "head" }, h("h2", null, "Workers"),
      h("p", null, `${summary.alive_count} alive${summary.silent_count ? ` · ${summary.silent_count} silent` : ""}`)),
    h("table", null,
      h("thead", null, h("tr", null, ["worker", "host", "version", "serves", "last beat", "loop lag", "memory", "jobs", ""].map((name) =>
        h("th", { scope: "col", class: `w-${name.split(" ").at(-1) || "act"}` }, name || h("span", { class: "unseen" }, "restart"))))),
      h("tbody", null, workers.map((worker) => row(worker, older, workers, look)))));
}

// How long ago a worker beat, in words and as a colour.
function hearing(worker, older) {
  const deadline = worker.deadline_seconds ?? 10;
  const age = (worker.last_change_seconds ?? worker.watched_seconds) + older;
  const tone = worker.alive === false ? "fail" : age > Math.max(3, deadline * 0.4) ? "silent" : "done";
  const words = worker.alive === false ? `silent for ${duration(age)}` : worker.alive == null ? "no beat yet" : since(age);
  return { deadline, tone, words, share: Math.min(100, (100 * age) / deadline) };
}

function row(worker, older, workers, look) {
  const { deadline, tone, words, share } = hearing(worker, older);
  const slow = worker.lag_seconds > SLOW_SECONDS;
  return h("tr", { key: worker.worker_id, "data-row": true, tabindex: "-1" },
    h("td", { class: "w-worker", title: worker.started_at ? `${worker.worker_id}, started ${exact(worker.started_at)}` : worker.worker_id }, h("code", null, worker.worker_id)),
    h("td", { class: "w-host", "data-label": "host", title: worker.host }, worker.host ?? "–"),
    h("td", { class: "w-version", "data-label": "version" }, worker.version ?? "–"),
    h("td", { class: "w-serves", "data-label": "serves", title: worker.platforms.join(", ") }, worker.platforms.join(", ")),
    h("td", { class: "w-beat", "data-label": "last beat" },
      h("span", { class: `meter tone-${tone}`, title: `lost after ${duration(deadline)} without a beat` }, h("i", { style: { width: `${share.toFixed(1)}%` } })),
      h("span", { class: `age ${tone === "done" ? "" : `tone-${tone}`}` }, words)),
    h("td", { class: `w-lag ${slow ? "tone-silent" : ""}`, "data-label": "loop lag", title: "longest time its event loop was blocked, in the last ten seconds" }, duration(worker.lag_seconds)),
    h("td", { class: "w-memory", "data-label": "memory" }, bytes(worker.memory_bytes)),
    h("td", { class: "w-jobs", "data-label": "jobs", title: worker.jobs.slice(0, 20).join(", ") }, jobs(worker.jobs)),
    h("td", { class: "w-act c-act" }, action("restart", "admin", () => restart(worker, workers, look), { "aria-label": `restart ${worker.worker_id}` })));
}

function jobs(ids) {
  if (!ids.length) return h("span", { class: "zero" }, "–");
  const more = ids.length - JOBS;
  return [ids.slice(0, JOBS).map((id, i) => [i ? ", " : "", h("a", { href: jobPath(id), title: id }, keyText(id))]), more > 0 && ` and ${more} more`];
}

// A restart concerns all workers of a platform: take the platform with the fewest.
async function restart(worker, workers, look) {
  const serving = (platform) => workers.filter((each) => each.platforms.includes(platform)).map((each) => each.worker_id);
  const platform = [...worker.platforms].sort((one, other) => serving(one).length - serving(other).length)[0];
  if (await confirmRestart(serving(platform), platform)) look();
}

export async function confirmRestart(names, platform) {
  const many = names.length > 1 ? `${count(names.length, "worker")} of ${platform}` : names[0];
  const text = `Every worker of ${platform} restarts: ${names.join(", ")}. Each starts no more jobs, finishes its running jobs within the grace period, releases the others to the queue without a failure, and exits; its supervisor starts it again.`;
  return (await confirm(`Restart ${many}?`, text, "Drain and restart")) &&
    attempt(() => act(`/api/v2/workers/${encodeURIComponent(platform)}/restart`), (answer) => `Asked ${count(answer.data.workers.length, "worker")} of ${platform} to restart.`);
}
