// The overview: platforms, failed jobs and workers. Counts are polled; progress comes by events.

import { act, ask, poll } from "../api.js";
import { action, attempt, confirm } from "../controls.js";
import { draw, h } from "../dom.js";
import { count, duration, exact, jobPath, listPath, now, percent } from "../words.js";
import { hear } from "./events.js";
import { deadLetters, DeadLetters } from "./failed.js";
import { keyText, short } from "./rows.js";
import { legend, sparkline, Trends } from "./trends.js";
import { workerTable } from "./workers.js";

const SHOWN = 3; // running jobs in a row
const SOON_MS = 300; // after an event that changes the counts
const STARTED_OR_ENDED = new Set(["started", "superseded", "retrying", "delayed", "completed", "failed", "cancelled", "reopened"]);

export function show(main) {
  const dead = new DeadLetters();
  const trends = new Trends();
  let state = null;
  let seenAt = 0;
  let expected = 0;
  let framed = false;

  const look = poll(async () => {
    const first = !state; // workers take a moment, the rest does not
    const how = first ? "?wait=0" : "";
    try {
      const [platforms, running, workers] = await Promise.all([
        ask(`/api/platforms${how}`), ask("/api/v2/jobs/running"), ask(`/api/v2/workers/status${how}`), trends.look(),
      ]);
      await dead.look(platforms.data);
      state = { first, platforms: platforms.data, running: running.data.running, workers: workers.data };
      seenAt = Date.now();
    } catch (error) {
      if (error.status !== 403) throw error;
      return draw(main, h("p", { class: "empty" }, `${error.message}. Sign in with another key.`));
    }
    showAll();
    if (first) look();
  });
  hear("/api/events", { event, missed: look });
  setInterval(() => state && !document.hidden && showAll(), 1000); // ages grow
  document.addEventListener("redraw", () => state && showAll());

  function event({ jobId, status, step, of }) {
    if (!state) return;
    if (status === "progress") {
      const job = state.running.find((each) => each.job_id === jobId);
      if (job) job.progress = percent({ step, of });
    } else if (STARTED_OR_ENDED.has(status)) {
      if (status !== "started") state.running = state.running.filter((job) => job.job_id !== jobId);
      expected ||= setTimeout(() => ((expected = 0), look()), Math.max(SOON_MS, seenAt + 1000 - Date.now()));
    }
    if (framed) return;
    framed = true;
    requestAnimationFrame(() => {
      framed = false;
      showAll();
    });
  }

  function showAll() {
    const { first, platforms, running, workers } = state;
    const older = Math.max(0, now() - seenAt) / 1000;
    const [only] = running;
    document.title = running.length === 1 ? `${only.progress == null ? "running" : `${Math.round(only.progress)} %`} · ${short(only.job_id)}`
      : running.length ? `${running.length} running · Tailrace` : "Tailrace";
    draw(main,
      h("h1", { class: "unseen" }, "Overview"),
      h("section", { class: "platforms", key: "platforms" },
        h("div", { class: "head" }, h("h2", null, "Platforms"), h("p", null, summary(platforms)), legend()),
        h("table", null,
          h("thead", null, h("tr", null, ["platform", "waiting", "running", "delayed", "failed", "oldest", "last 10 min", ""].map((name) =>
            h("th", { scope: "col", class: `c-${name.split(" ").at(-1) || "act"}` }, name || h("span", { class: "unseen" }, "pause"))))),
          h("tbody", null, platforms.map((each) => platformRow(each, first, running.filter((job) => job.platform === each.platform), trends, older, look))))),
      deadLetters(dead, look),
      !(first && !workers.workers.length) && workerTable(workers, older, look),
      idle(platforms) && h("p", { class: "empty", key: "next" }, "No jobs yet. Try ", h("code", null, `python3 -m ops submit ${firstJob(platforms)} --follow`), h("span", { class: "needs-submit" }, ", or press ", h("kbd", null, "n")), "."));
  }
}

// A platform and a kind to begin with. A gateway may have no built-in kinds.
function firstJob(platforms) {
  const names = platforms.map(({ platform }) => platform);
  const drills = document.documentElement.dataset.kinds?.split(" ").includes("drill");
  return `${names.includes("research") ? "research" : (names[0] ?? "PLATFORM")} ${drills ? "drill" : "KIND"}`;
}

const idle = (platforms) => platforms.every((each) => !(each.waiting || each.running || each.delayed || each.failed || each.completed || each.cancelled));

function summary(platforms) {
  const sum = (name) => platforms.reduce((total, each) => total + each[name], 0);
  return `${sum("waiting")} waiting · ${sum("running")} running · ${sum("delayed")} delayed · ${sum("failed")} failed`;
}

function platformRow(each, first, running, trends, older, look) {
  const name = each.platform;
  const quiet = !(each.waiting || each.running || each.delayed || each.failed);
  return h("tr", { key: name, "data-row": true, class: `${each.paused ? "paused" : ""} ${quiet ? "idle" : ""}` },
    h("td", { class: "c-platform" }, h("a", { href: listPath(name, "active") }, name), h("small", null, standing(each, first))),
    number(each, "waiting", "waiting"),
    h("td", { class: "c-running", "data-label": "running" }, each.running || running.length ? runningJobs(each, running, older) : h("span", { class: "zero" }, "–")),
    number(each, "delayed", "delayed"),
    number(each, "failed", "failed"),
    h("td", { class: "c-oldest", "data-label": "oldest" }, each.oldestWaitingSeconds == null ? h("span", { class: "zero" }, "–") : duration(each.oldestWaitingSeconds + older, true)),
    h("td", { class: "c-min", "data-label": "last 10 min" }, sparkline(trends.of(name, each.waiting))),
    h("td", { class: "c-act" }, pauseButton(each, look)));
}

function standing(each, first) {
  if (each.unavailable) return h("span", { class: "tone-fail", title: each.unavailable }, "its node does not answer");
  if (each.paused) return h("span", { class: "tone-silent", title: exact(each.pausedSince) }, `paused${each.pausedBy ? ` by ${each.pausedBy}` : ""}`);
  if (each.heldSeconds) return h("span", { class: "tone-silent" }, `rate limit reached, ${duration(each.heldSeconds)} left`);
  if (!each.consumers.length && first) return null; // not known yet
  if (!each.consumers.length) {
    const needed = each.waiting || each.running || each.delayed;
    return h("span", { class: needed ? "tone-silent" : "", title: `python3 -m ops consume ${each.platform}` }, "no worker");
  }
  return count(each.consumers.length, "worker");
}

function number(each, field, state) {
  const n = each[field];
  return h("td", { class: `c-${field} num`, "data-label": field },
    n ? h("a", { href: listPath(each.platform, state), class: field === "failed" ? "tone-fail" : "", "aria-label": `${n} ${field} on ${each.platform}` }, n) : h("span", { class: "zero" }, "0"));
}

function runningJobs(each, running, older) {
  const shown = running.slice(0, SHOWN);
  const rest = Math.max(each.running, running.length) - shown.length; // a job that has just started is counted before its id is known
  return [
    shown.map((job) =>
      h("a", { class: "job", key: job.job_id, href: jobPath(job.job_id), title: job.job_id },
        bar(job.progress), h("span", { class: "pct" }, job.progress == null ? "" : `${Math.round(job.progress)} %`),
        h("span", { class: "id" }, job.workflow_id, " ", keyText(job.job_id)),
        h("span", { class: "age" }, duration(job.elapsed_seconds + older, true)))),
    rest > 0 && h("a", { class: "more", key: "more", href: listPath(each.platform, "active") }, shown.length ? `and ${rest} more` : `${rest} running`),
  ];
}

function bar(progress) {
  return h("span", { class: `bar ${progress == null ? "unknown" : ""}`, role: "progressbar", "aria-label": "progress",
    "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": progress == null ? null : Math.round(progress) },
    h("i", { style: { width: `${progress ?? 100}%` } }));
}

function pauseButton(each, look) {
  const word = each.paused ? "resume" : "pause";
  return action(word, "act", async () => {
    const text = `No job starts until the platform is resumed${each.waiting ? `; ${count(each.waiting, "job")} will wait` : ""}. Running jobs continue.`;
    if (word === "pause" && !(await confirm(`Pause ${each.platform}?`, text, `Pause ${each.platform}`))) return;
    await attempt(() => act(`/api/platforms/${each.platform}/${word}`, { by: "the page" }), () => `${each.platform} is ${word}d.`);
    look();
  }, { "aria-label": `${word} ${each.platform}` });
}
