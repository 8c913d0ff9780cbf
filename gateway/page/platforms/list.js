// The jobs of one platform in one state, page by page; which ones is in the address.

import { ask, link, poll } from "../api.js";
import { action } from "../controls.js";
import { draw, h } from "../dom.js";
import { clock, count, exact, home, jobPath, keyOf, listPath, TONES } from "../words.js";
import { hear } from "./events.js";
import { deadLetters, DeadLetters } from "./failed.js";
import { ago } from "./rows.js";
import { confirmRestart } from "./workers.js";

const STATES = { waiting: "waiting", active: "running", delayed: "delayed", completed: "completed", failed: "failed", cancelled: "cancelled" };
const PIECE = 50;

export function show(main, platform, state) {
  document.title = `${platform} · Tailrace`;
  if (!Object.hasOwn(STATES, state)) {
    link.up("connected");
    return draw(main, h("p", { class: "empty" }, `“${state}” is not a state of jobs. States of ${platform}: `,
      Object.entries(STATES).map(([word, counted], i) => [i ? ", " : "", h("a", { href: listPath(platform, word) }, counted)])));
  }
  const path = `/api/platforms/${encodeURIComponent(platform)}`;
  const dead = new DeadLetters({ platform, shown: PIECE, open: true });
  let pages = 1;
  let found = null;
  let unknown = null;
  let expected = 0;
  const look = poll(async () => {
    try {
      const first = !found;
      const { data } = await ask(first ? `${path}?wait=0` : path);
      if (state === "failed") await dead.look([data]);
      found = { data, first, ...(state === "failed" ? { jobs: [], next: null } : await read()) };
      if (first) look(); // to see which workers are alive takes a moment
    } catch (error) {
      if (!(error.status >= 400 && error.status < 500) || error.status === 401) throw error;
      unknown = error.message;
    }
    showAll();
  });
  hear(`/api/events?platform=${encodeURIComponent(platform)}`, { missed: look, event: ({ status }) => {
    if (status !== "progress") expected ||= setTimeout(() => ((expected = 0), look()), 1000);
  } });
  document.addEventListener("redraw", () => found && showAll());

  async function read() {
    const jobs = [];
    let next = "";
    for (let page = 0; page < pages && next != null; page++) {
      const answer = await ask(`${path}/jobs?state=${state}&limit=${PIECE}${next && `&after=${encodeURIComponent(next)}`}`);
      jobs.push(...answer.data);
      next = answer.next;
    }
    return { jobs, next };
  }

  function showAll() {
    if (unknown) return draw(main, h("p", { class: "empty" }, unknown, " ", h("a", { href: home }, "All platforms")));
    const { data, first, jobs, next } = found;
    const consumers = data.consumers;
    const unseen = first && !consumers.length && !data.paused;
    draw(main,
      h("div", { class: "title" }, h("a", { href: home, class: "back" }, "platforms"), h("h1", null, platform),
        !unseen && h("span", { class: data.paused || !consumers.length ? "tone-silent" : "dim" }, standing(data)),
        h("span", { class: "acts" }, consumers.length > 0 && action("restart workers", "admin", () => confirmRestart(consumers, platform).then(look)))),
      h("nav", { class: "tabs", "aria-label": "state" }, Object.entries(STATES).map(([word, counted]) =>
        h("a", { href: listPath(platform, word), "aria-current": word === state ? "page" : null }, counted, " ", h("span", { class: "dim num" }, data[counted])))),
      state === "failed" && deadLetters(dead, look),
      jobs.length ? table(jobs) : !(state === "failed" && data.failed) && h("p", { class: "empty" }, `No job of ${platform} is ${STATES[state] ?? state}. Try `,
        h("code", null, `python3 -m ops submit ${platform} drill --follow`)),
      next != null && h("button", { type: "button", class: "wide", onclick: () => (pages++, look()) }, "show more"));
  }
}

function standing(data) {
  if (data.unavailable) return "its node does not answer";
  if (data.paused) return `paused${data.pausedBy ? ` by ${data.pausedBy}` : ""}`;
  return data.consumers.length ? count(data.consumers.length, "worker") : `no worker: run python3 -m ops consume ${data.platform}`;
}

// The last column: when the job ended, will run or started; for a waiting job its priority.
function timeOf({ endedAt, runAt, status, startedAt }) {
  return endedAt ? ["ended", endedAt] : runAt ? ["runs", runAt] : status === "active" ? ["started", startedAt] : ["priority", null];
}

function lastTime(job) {
  const [label, at] = timeOf(job);
  return h("td", { "data-label": label, title: exact(at) }, label === "priority" ? job.priority : label === "runs" ? clock(at) : at && ago(at));
}

function table(jobs) {
  return h("table", { class: "jobs" },
    h("thead", null, h("tr", null, ["job", "kind", "attempt", "created", timeOf(jobs[0])[0], ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "error"))))),
    h("tbody", null, jobs.map((job) =>
      h("tr", { key: job.jobId, "data-row": true },
        h("td", { "data-label": "job" }, h("i", { class: `dot tone-${TONES[job.status]}`, title: job.status }), h("a", { href: jobPath(job.jobId) }, h("code", null, keyOf(job.jobId)))),
        h("td", { "data-label": "kind" }, job.kind),
        h("td", { "data-label": "attempt" }, job.attempt ?? "–"),
        h("td", { "data-label": "created", title: exact(job.createdAt) }, ago(job.createdAt)),
        lastTime(job),
        h("td", { class: "message" }, job.error && `${job.error.type}: ${job.error.message}`)))));
}
