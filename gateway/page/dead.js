// Dead letters: failed jobs that are still kept, grouped by the type of their error, tried again or dropped.

import { act, ask } from "/page/api.js";
import { confirm, openSubmit, say } from "/page/dialogs.js";
import { h } from "/page/dom.js";
import { ago, count, exact, jobPath, listPath, short } from "/page/words.js";

const MOST = 500; // of a platform
const AGAIN_MS = 30_000;
const AT_ONCE = 4; // requests, when single jobs are acted on

export class DeadLetters {
  // `shown`: how many jobs of a group; `open`: whether groups are open unless somebody closed them.
  constructor({ shown = 10, open = false } = {}) {
    this.known = new Map(); // platform -> { failed, at, groups }
    this.turned = new Set(); // groups that are not as they are by themselves
    this.chosen = new Set(); // jobs
    this.shown = shown;
    this.open = open;
  }

  // Read again only where the number of dead letters changed, or now and then.
  async look(platforms) {
    for (const { platform, failed } of platforms) {
      const known = this.known.get(platform);
      if (!failed) this.known.delete(platform);
      else if (known?.failed !== failed || Date.now() - known.at > AGAIN_MS) {
        const page = await ask(`/api/platforms/${platform}/dead?limit=${MOST}`);
        this.known.set(platform, { failed, at: Date.now(), more: page.next != null, groups: groupsOf(platform, page.data) });
      }
    }
    const there = new Set(this.groups.flatMap(({ jobs }) => jobs.map((job) => job.jobId)));
    for (const id of this.chosen) if (!there.has(id)) this.chosen.delete(id);
  }

  // The group whose last failure is the newest comes first.
  get groups() {
    const all = [...this.known.values()].flatMap(({ groups, more }) => groups.map((group) => ({ ...group, more })));
    return all.sort((one, other) => Date.parse(other.jobs[0].endedAt) - Date.parse(one.jobs[0].endedAt));
  }

  // Look anew, whatever is known.
  forget() {
    for (const known of this.known.values()) known.at = 0;
    this.chosen.clear();
  }
}

function groupsOf(platform, jobs) {
  const groups = new Map();
  for (const job of jobs) {
    const type = job.error?.type ?? null;
    if (!groups.has(type)) groups.set(type, { platform, type, jobs: [] });
    groups.get(type).jobs.push(job);
  }
  return [...groups.values()];
}

export function deadLetters(dead, look) {
  const groups = dead.groups;
  if (!groups.length) return null;
  const total = [...dead.known.values()].reduce((sum, { failed }) => sum + failed, 0);
  return h("section", { class: "dead", key: "dead" },
    h("div", { class: "head" }, h("h2", null, "Dead letters"), h("p", null, `${count(total, "job")} failed for good`)),
    groups.map((group) => groupView(group, dead, look)));
}

function groupView(group, dead, look) {
  const { platform, type, jobs, more } = group;
  const key = `${platform} ${type}`;
  const chosen = jobs.filter((job) => dead.chosen.has(job.jobId));
  return h("details", { key, open: dead.open !== dead.turned.has(key), ontoggle: (event) => dead.turned[event.target.open === dead.open ? "delete" : "add"](key) },
    h("summary", { "data-row": true },
      h("b", { class: "tone-fail num" }, `${jobs.length}${more ? "+" : ""}`),
      h("span", { class: "what" }, h("b", null, type ?? "no error was told"), " ", h("span", { class: "dim" }, `on ${platform}`)),
      h("span", { class: "message" }, jobs[0].error?.message),
      h("span", { class: "age", title: exact(jobs[0].endedAt) }, ago(jobs[0].endedAt)),
      h("span", { class: "acts needs-act" }, buttons(group, chosen, dead, look))),
    h("ul", null, jobs.slice(0, dead.shown).map((job) => jobRow(job, platform, dead, look)),
      jobs.length > dead.shown && h("li", { key: "more" }, dead.open
        ? h("button", { type: "button", onclick: () => ((dead.shown *= 4), look()) }, `show ${jobs.length - dead.shown} more`)
        : h("a", { href: listPath(platform, "failed") }, `and ${jobs.length - dead.shown} more`))));
}

// Those that are chosen, else all of the group.
function buttons(group, chosen, dead, look) {
  if (!chosen.length && group.type == null) return null; // the gateway tells groups apart by their type alone
  const which = chosen.length ? `${chosen.length} chosen` : group.jobs.length > 1 ? "all" : "";
  return ["replay", "drop"].map((word) => h("button", { type: "button", key: word, class: word === "drop" ? "danger" : null, onclick: async (event) => {
    event.preventDefault();
    if (chosen.length ? await sweepChosen(chosen, word) : await sweep(group, word)) {
      dead.forget();
      look();
    }
  } }, `${word} ${which}`.trim()));
}

function jobRow(job, platform, dead, look) {
  return h("li", { key: job.jobId, "data-row": true },
    h("input", { type: "checkbox", class: "needs-act", "aria-label": `choose ${job.jobId}`, checked: dead.chosen.has(job.jobId), onchange: (event) => {
      dead.chosen[event.target.checked ? "add" : "delete"](job.jobId);
      look();
    } }),
    h("a", { href: jobPath(job.jobId), title: job.jobId }, h("code", null, short(job.jobId))),
    h("span", { class: "dim kind" }, job.kind),
    h("span", { class: "message" }, job.error?.message),
    h("span", { class: "age", title: exact(job.endedAt) }, ago(job.endedAt)),
    h("button", { type: "button", class: "small needs-submit", "aria-label": `edit the args of ${job.jobId} and submit them as a new job`, onclick: () => edit(job, platform) }, "edit args…"));
}

// A job's args never change: edited ones are a new job.
async function edit(job, platform) {
  const { data } = await ask(`/api/jobs/${encodeURIComponent(job.jobId)}/args`).catch(() => ({ data: { kept: false } }));
  openSubmit({ platform, kind: job.kind, args: data.kept ? data.args : undefined, from: job.jobId });
}

// The question names a number, and no more than that number is acted on.
async function sweep({ platform, type, jobs }, word) {
  if (!(await sure(jobs.length, word, `${type} on ${platform}`))) return false;
  const body = { error: type, limit: jobs.length, ...(word === "replay" && { by: "the page" }) };
  try {
    const answer = await act(`/api/platforms/${platform}/${word}`, body);
    tell(word, answer.replayed ?? answer.dropped, answer.left ? `, ${answer.left} are left` : "");
  } catch (error) {
    say(error.message, "fail");
  }
  return true;
}

async function sweepChosen(jobs, word) {
  if (!(await sure(jobs.length, word, jobs.length === 1 ? jobs[0].jobId : "the chosen ones"))) return false;
  const left = [...jobs];
  let done = 0;
  let refused = "";
  const [way, body] = word === "replay" ? ["retry", { by: "the page" }] : ["drop", {}];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let job = left.shift(); job; job = left.shift()) {
      await act(`/api/jobs/${encodeURIComponent(job.jobId)}/${way}`, body).then(() => done++, (error) => (refused = error.message));
    }
  }));
  tell(word, done, refused && `, ${jobs.length - done} refused: ${refused}`, refused && "fail");
  return true;
}

const tell = (word, n, rest, tone) => say(`${word === "replay" ? "Replayed" : "Dropped"} ${n}${rest}.`, tone);

const sure = (n, word, which) => (word === "replay"
  ? confirm(`Replay ${count(n, "failed job")}?`, `${which}: each goes back in line and keeps its history.`, `Replay ${n}`)
  : confirm(`Drop ${count(n, "failed job")}?`, `${which}: gone for good, with their histories.`, `Drop ${n}`));
