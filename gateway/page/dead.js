// Dead letters: failed jobs that are still kept, grouped by platform and type of error, tried again or dropped.

import { act, ask } from "/page/api.js";
import { attempt, confirm } from "/page/dialogs.js";
import { h } from "/page/dom.js";
import { ago, count, exact, jobPath, short } from "/page/words.js";

const MOST = 500; // of a platform
const SHOWN = 10; // of a group
const AGAIN_MS = 30_000;

export class DeadLetters {
  constructor() {
    this.known = new Map(); // platform -> { failed, at, groups }
    this.open = new Set();
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
  }

  get groups() {
    return [...this.known.values()].flatMap(({ groups, more }) => groups.map((group) => ({ ...group, more })));
  }
}

function groupsOf(platform, jobs) {
  const groups = new Map();
  for (const job of jobs) {
    const type = job.error?.type ?? null;
    if (!groups.has(type)) groups.set(type, { platform, type, jobs: [] });
    groups.get(type).jobs.push(job);
  }
  return [...groups.values()].sort((one, other) => other.jobs.length - one.jobs.length);
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
  const newest = jobs[0];
  const name = type ?? "no error was told";
  return h("details", { key, open: dead.open.has(key), ontoggle: (event) => dead.open[event.target.open ? "add" : "delete"](key) },
    h("summary", { "data-row": true },
      h("b", { class: "tone-fail num" }, `${jobs.length}${more ? "+" : ""}`),
      h("span", { class: "what" }, h("b", null, name), " ", h("span", { class: "dim" }, `on ${platform}`)),
      h("span", { class: "message" }, newest.error?.message),
      h("span", { class: "age", title: exact(newest.endedAt) }, ago(newest.endedAt)),
      type && h("span", { class: "acts" },
        button("replay", () => sweep(group, "replay", look)),
        button("drop", () => sweep(group, "drop", look)))),
    h("ul", null, jobs.slice(0, SHOWN).map((job) =>
      h("li", { key: job.jobId }, h("a", { href: jobPath(job.jobId), title: job.jobId }, h("code", null, short(job.jobId))),
        h("span", { class: "dim" }, job.kind), h("span", { class: "message" }, job.error?.message), h("span", { class: "age" }, ago(job.endedAt)))),
      jobs.length > SHOWN && h("li", { key: "more" }, h("a", { href: `/?platform=${platform}&state=failed` }, `and ${jobs.length - SHOWN} more`))));
}

const button = (word, act) => h("button", { type: "button", key: word, class: word === "drop" ? "danger" : null, onclick: (event) => {
  event.preventDefault();
  act();
} }, word);

// The question names a number, and no more than that number is acted on.
async function sweep({ platform, type, jobs }, word, look) {
  const many = count(jobs.length, "failed job");
  const [title, text, yes] = word === "replay"
    ? [`Replay ${many}?`, `${type} on ${platform}: each goes back in line and keeps its history.`, `Replay ${jobs.length}`]
    : [`Drop ${many}?`, `${type} on ${platform}: they and their histories are gone for good.`, `Drop ${jobs.length}`];
  if (!(await confirm(title, text, yes))) return;
  const body = { error: type, limit: jobs.length, ...(word === "replay" && { by: "the page" }) };
  await attempt(() => act(`/api/platforms/${platform}/${word}`, body),
    (answer) => `${word === "replay" ? "Replayed" : "Dropped"} ${answer.replayed ?? answer.dropped}${answer.left ? `, ${answer.left} are left` : ""}.`);
  look();
}
