// The jobs of one platform in one state, page by page; which ones is in the address.

import { act, ask, poll, Problem } from "/page/api.js";
import { deadLetters, DeadLetters } from "/page/dead.js";
import { attempt, confirm } from "/page/dialogs.js";
import { draw, h } from "/page/dom.js";
import { ago, count, exact, jobPath, keyOf, listPath, TONES } from "/page/words.js";

const STATES = { waiting: "waiting", active: "running", delayed: "delayed", completed: "completed", failed: "failed", cancelled: "cancelled" };
const PIECE = 50;

export function showList(main, platform, state) {
  document.title = `${platform} · Tailrace`;
  const path = `/api/platforms/${encodeURIComponent(platform)}`;
  const dead = new DeadLetters();
  let pages = 1;
  let found = null;
  let unknown = null;
  const look = poll(async () => {
    try {
      const { data } = await ask(path);
      const jobs = [];
      let next = "";
      for (let page = 0; page < pages && next != null; page++) {
        const answer = await ask(`${path}/jobs?state=${state}&limit=${PIECE}${next && `&after=${encodeURIComponent(next)}`}`);
        jobs.push(...answer.data);
        next = answer.next;
      }
      if (state === "failed") await dead.look([data]);
      found = { data, jobs, next };
    } catch (error) {
      if (!(error instanceof Problem && error.status < 500)) throw error;
      unknown = error.message;
    }
    show();
  });

  function show() {
    if (unknown) return draw(main, h("p", { class: "empty" }, unknown));
    const { data, jobs, next } = found;
    const first = !main.firstChild;
    draw(main,
      h("div", { class: "title" }, h("a", { href: "/", class: "back" }, "platforms"), h("h1", null, platform),
        h("span", { class: "dim" }, data.paused ? "paused" : data.consumers.length ? count(data.consumers.length, "consumer") : "no consumer serves this"),
        h("span", { class: "acts" }, h("button", { type: "button", disabled: !data.consumers.length, onclick: restart }, "restart consumers"))),
      h("nav", { class: "tabs", "aria-label": "state" }, Object.entries(STATES).map(([word, counted]) =>
        h("a", { href: listPath(platform, word), "aria-current": word === state ? "page" : null }, counted, " ", h("span", { class: "dim num" }, data[counted])))),
      state === "failed" && deadLetters(dead, look),
      jobs.length ? table(jobs) : h("p", { class: "empty" }, `No job of ${platform} is ${STATES[state] ?? state}. Try `,
        h("code", null, `python3 -m ops submit ${platform} drill --follow`)),
      next != null && h("button", { type: "button", class: "wide", onclick: () => (pages++, look()) }, "show more"));
    if (first) main.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  async function restart() {
    const many = count(found.data.consumers.length, "consumer");
    if (await confirm(`Restart ${many} of ${platform}?`, "Each ends what it runs, leaves, and is started anew by its supervisor. No attempt is lost by it.", "Restart")) {
      await attempt(() => act(`/api/v2/workers/${encodeURIComponent(platform)}/restart`), () => `${platform}: asked to restart.`);
    }
  }
}

function table(jobs) {
  return h("table", { class: "jobs" },
    h("thead", null, h("tr", null, ["job", "kind", "attempt", "created", "ended", ""].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, jobs.map((job) =>
      h("tr", { key: job.jobId, "data-row": true },
        h("td", { "data-label": "job" }, h("i", { class: `dot tone-${TONES[job.status]}`, title: job.status }), h("a", { href: jobPath(job.jobId) }, h("code", null, keyOf(job.jobId)))),
        h("td", { "data-label": "kind" }, job.kind),
        h("td", { "data-label": "attempt" }, job.attempt ?? "–"),
        h("td", { "data-label": "created", title: exact(job.createdAt) }, ago(job.createdAt)),
        h("td", { "data-label": job.runAt ? "runs" : "ended", title: exact(job.endedAt ?? job.runAt) }, job.runAt ? new Date(job.runAt).toLocaleTimeString() : job.endedAt ? ago(job.endedAt) : "–"),
        h("td", { class: "message" }, job.error && `${job.error.type}: ${job.error.message}`)))));
}
