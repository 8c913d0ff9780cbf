// The overview: a row for each platform, what failed, and who works.

import { act, ask, poll } from "/page/api.js";
import { deadLetters, DeadLetters } from "/page/dead.js";
import { attempt } from "/page/dialogs.js";
import { draw, h } from "/page/dom.js";
import { count, duration, exact, jobPath, listPath, short, since } from "/page/words.js";

const SHOWN = 3; // running jobs in a row
const ASKED = 24; // running jobs whose progress is asked for
const SEEN = 120; // depths kept for the sparkline
const EVERY_MS = 5000; // one of them

export function showOverview(main) {
  const seen = remembered();
  const dead = new DeadLetters();
  let state = null;
  const look = poll(async () => {
    const [platforms, running, workers] = await Promise.all([
      ask("/api/platforms"), ask("/api/v2/jobs/running"), ask("/api/v2/workers/status"),
    ]);
    state = { platforms: platforms.data, running: await withProgress(running.data.running), workers: workers.data };
    remember(seen, state.platforms);
    await dead.look(state.platforms);
    show();
  });

  function show() {
    const { platforms, running, workers } = state;
    document.title = running.length ? `${running.length} running · Tailrace` : "Tailrace";
    draw(main,
      h("h1", { class: "unseen" }, "Overview"),
      h("section", { class: "platforms" },
        sectionHead("Platforms", summary(platforms, workers)),
        h("table", null,
          h("thead", null, h("tr", null, ["platform", "waiting", "running", "delayed", "dead", "oldest", "depth", ""].map((name) =>
            h("th", { scope: "col", class: `c-${name || "act"}` }, name)))),
          h("tbody", null, platforms.map((each) => platformRow(each, running.filter((job) => job.platform === each.platform), seen, look))))),
      deadLetters(dead, look),
      workerTable(workers));
  }
}

const sectionHead = (title, ...words) => h("div", { class: "head" }, h("h2", null, title), h("p", null, words));

function summary(platforms, { summary }) {
  const sum = (name) => platforms.reduce((total, each) => total + each[name], 0);
  return `${sum("waiting")} waiting · ${sum("running")} running · ${count(summary.alive_count, "consumer")} alive`;
}

function platformRow(each, running, seen, look) {
  const name = each.platform;
  const idle = !(each.waiting || each.running || each.delayed || each.failed);
  return h("tr", { key: name, "data-row": true, class: `${each.paused ? "paused" : ""} ${idle ? "idle" : ""}` },
    h("td", { class: "c-platform" }, h("a", { href: listPath(name, "active") }, name), h("small", null, standing(each))),
    number(each, "waiting", "waiting"),
    h("td", { class: "c-running", "data-label": "running" }, running.length ? runningJobs(each, running) : h("span", { class: "zero" }, "–")),
    number(each, "delayed", "delayed"),
    number(each, "failed", "failed", "dead"),
    h("td", { class: "c-oldest", "data-label": "oldest" }, each.oldestWaitingSeconds == null ? h("span", { class: "zero" }, "–") : duration(each.oldestWaitingSeconds)),
    h("td", { class: "c-depth", "data-label": "depth" }, sparkline([...(seen[name] ?? []), each.waiting])),
    h("td", { class: "c-act" }, pauseButton(each, look)));
}

function standing(each) {
  if (each.paused) return h("span", { class: "tone-silent", title: exact(each.pausedSince) }, `paused${each.pausedBy ? ` by ${each.pausedBy}` : ""}`);
  if (each.heldSeconds) return h("span", { class: "tone-silent" }, `held by a rate, ${duration(each.heldSeconds)} more`);
  if (!each.consumers.length) {
    const needed = each.waiting || each.running || each.delayed;
    return h("span", { class: needed ? "tone-silent" : "" }, "no consumer serves this");
  }
  return count(each.consumers.length, "consumer");
}

function number(each, field, state, label = field) {
  const n = each[field];
  return h("td", { class: `c-${label} num`, "data-label": label },
    n ? h("a", { href: listPath(each.platform, state), class: label === "dead" ? "tone-fail" : "" }, n) : h("span", { class: "zero" }, "0"));
}

function runningJobs(each, running) {
  const rest = Math.max(each.running, running.length) - SHOWN;
  return [
    running.slice(0, SHOWN).map((job) =>
      h("a", { class: "job", key: job.job_id, href: jobPath(job.job_id), title: job.job_id },
        bar(job.progress), h("span", { class: "pct" }, job.progress == null ? "" : `${Math.round(job.progress)} %`),
        h("span", { class: "id" }, job.workflow_id, " ", h("code", null, short(job.job_id))),
        h("span", { class: "age" }, duration(job.elapsed_seconds)))),
    rest > 0 && h("a", { class: "more", key: "more", href: listPath(each.platform, "active") }, `and ${rest} more`),
  ];
}

export function bar(progress) {
  return h("span", { class: `bar ${progress == null ? "unknown" : ""}`, role: "progressbar", "aria-label": "progress",
    "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": progress == null ? null : Math.round(progress) },
    h("i", { style: { width: `${progress ?? 100}%` } }));
}

function pauseButton(each, look) {
  const word = each.paused ? "resume" : "pause";
  return h("button", { type: "button", "aria-label": `${word} ${each.platform}`, onclick: async () => {
    await attempt(() => act(`/api/platforms/${each.platform}/${word}`, { by: "the page" }), () => `${each.platform} is ${word}d.`);
    look();
  } }, word);
}

// How deep the line was while the page was open.
function sparkline(depths) {
  const [width, height] = [96, 20];
  const most = Math.max(4, ...depths);
  const points = depths.map((depth, i) => `${(width - (depths.length - 1 - i) * (width / (SEEN / 2))).toFixed(1)},${(height - 1.5 - (depth / most) * (height - 3)).toFixed(1)}`);
  const words = `waiting: now ${depths.at(-1)}, at most ${Math.max(...depths)} while this page was open`;
  return h("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words },
    h("title", null, words),
    h("path", { d: `M0 ${height - 1.5}H${width}` }),
    h("polyline", { points: points.slice(-SEEN / 2).join(" ") }),
    h("circle", { cx: width, cy: points.at(-1).split(",")[1], r: 1.8 }));
}

function remembered() {
  try {
    return JSON.parse(sessionStorage.getItem("depths")) || {};
  } catch {
    return {};
  }
}

let lastDepth = 0;

function remember(seen, platforms) {
  if (Date.now() - lastDepth < EVERY_MS) return;
  lastDepth = Date.now();
  for (const { platform, waiting } of platforms) seen[platform] = [...(seen[platform] ?? []), waiting].slice(-SEEN);
  try {
    sessionStorage.setItem("depths", JSON.stringify(seen));
  } catch { /* then it begins anew with the next page */ }
}

async function withProgress(running) {
  const shown = {};
  const asked = running.filter(({ platform }) => (shown[platform] = (shown[platform] ?? 0) + 1) <= SHOWN).slice(0, ASKED);
  const told = await Promise.all(asked.map((job) => ask(`/api/jobs/${encodeURIComponent(job.job_id)}`).catch(() => null)));
  const progress = new Map(told.filter(Boolean).map(({ data }) => [data.jobId, data.progress]));
  return running.map((job) => ({ ...job, progress: progress.get(job.job_id) ?? null }));
}

function workerTable({ workers, summary }) {
  if (!workers.length) {
    return h("section", null, sectionHead("Workers"), h("p", { class: "empty" }, "No consumer beats. Start one: ", h("code", null, "python3 -m ops consume research")));
  }
  return h("section", { class: "workers" },
    sectionHead("Workers", `${summary.alive_count} alive${summary.silent_count ? ` · ${summary.silent_count} not heard` : ""}`),
    h("table", null,
      h("thead", null, h("tr", null, ["worker", "serves", "last beat", "jobs"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, workers.map(workerRow))));
}

function workerRow(worker) {
  const deadline = worker.deadline_seconds ?? 10;
  const age = worker.last_change_seconds ?? worker.watched_seconds;
  const tone = worker.alive === false ? "fail" : age > deadline * 0.4 ? "silent" : "run";
  const words = worker.alive === false ? `silent for ${duration(age)}` : worker.alive == null ? "not heard yet" : since(age);
  return h("tr", { key: worker.worker_id, "data-row": true, tabindex: "-1" },
    h("td", { "data-label": "worker" }, h("code", null, worker.worker_id)),
    h("td", { "data-label": "serves", class: "serves" }, worker.platforms.join(", ")),
    h("td", { "data-label": "last beat", class: "c-beat" },
      h("span", { class: `meter tone-${tone}`, title: `of ${duration(deadline)} until it counts as lost` }, h("i", { style: { width: `${Math.min(100, (100 * age) / deadline)}%` } })),
      h("span", { class: `age ${tone === "run" ? "" : `tone-${tone}`}` }, words)),
    h("td", { "data-label": "jobs" }, worker.jobs.length ? worker.jobs.slice(0, 5).map((id, i) => [i ? ", " : "", h("a", { href: jobPath(id), title: id }, short(id))]) : h("span", { class: "zero" }, "–"),
      worker.jobs.length > 5 && ` and ${worker.jobs.length - 5} more`));
}
