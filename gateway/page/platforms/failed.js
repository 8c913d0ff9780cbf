// Failed jobs that are still kept, in groups by the type of their error, to replay or to drop.

import { ask } from "../api.js";
import { action, openSubmit, part } from "../controls.js";
import { h } from "../dom.js";
import { count, exact, jobPath, listPath } from "../words.js";
import { ago, keyText } from "./rows.js";

const MOST = 1000; // jobs of a group that are listed
const AGAIN_MS = 30_000;

export class DeadLetters {
  // `platform`: of this one alone; `shown`: how many jobs of a group; `open`: whether groups are open by themselves.
  constructor({ platform, shown = 10, open = false } = {}) {
    this.path = `/api/dead${platform ? `?platform=${encodeURIComponent(platform)}` : ""}`;
    this.groups = [];
    this.counted = ""; // the counts of failed jobs that the groups were read for
    this.at = 0;
    this.turned = new Set(); // groups that a person opened or closed
    this.chosen = new Set(); // jobs
    this.shown = shown;
    this.open = open;
  }

  isOpen = ({ key }) => this.open !== this.turned.has(key);

  // Read again only where a number of failed jobs changed, or now and then; and the jobs of groups that are open.
  async look(platforms) {
    const counted = platforms.map(({ platform, failed }) => failed && `${platform} ${failed}`).filter(Boolean).join();
    if (counted !== this.counted || (counted && Date.now() - this.at > AGAIN_MS)) {
      const before = new Map(this.groups.map((group) => [group.key, group]));
      const { data } = counted ? await ask(this.path) : { data: [] };
      this.groups = data.map((group) => {
        const key = `${group.platform} ${group.error}`;
        const known = before.get(key);
        const same = known?.count === group.count && known.newest?.jobId === group.newest?.jobId;
        return { ...group, key, jobs: known?.jobs ?? [], read: same ? known.read : 0 };
      }).sort((one, other) => (other.newest?.endedAt ?? "").localeCompare(one.newest?.endedAt ?? "")); // the newest first
      [this.counted, this.at] = [counted, Date.now()];
    }
    for (const group of this.groups) if (this.isOpen(group) && group.read < Math.min(group.count, this.shown)) await this.read(group);
    const there = new Set(this.groups.flatMap(({ jobs }) => jobs.map((job) => job.jobId)));
    for (const id of this.chosen) if (!there.has(id)) this.chosen.delete(id);
  }

  async read(group) {
    const { platform, error } = group;
    const types = this.groups.filter((each) => each.platform === platform).map((each) => each.error);
    const only = error ? `&error=${encodeURIComponent(error)}` : "";
    const { data } = await ask(`/api/platforms/${platform}/dead?limit=${this.shown}${only}`);
    group.jobs = error ? data : data.filter((job) => !types.includes(job.error?.type));
    group.read = this.shown;
  }

  // Read everything again at the next look.
  forget() {
    this.counted = null;
    this.chosen.clear();
    for (const group of this.groups) group.read = 0;
  }
}

export function deadLetters(dead, look) {
  if (!dead.groups.length) return null;
  const total = dead.groups.reduce((sum, group) => sum + group.count, 0);
  return h("section", { class: "dead", key: "dead" },
    h("div", { class: "head" }, h("h2", null, "Failed jobs"), h("p", null, `${count(total, "job")}, by error`)),
    dead.groups.map((group) => groupView(group, dead, look)));
}

function groupView(group, dead, look) {
  const { platform, error, newest, jobs, key } = group;
  const chosen = jobs.filter((job) => dead.chosen.has(job.jobId));
  const more = group.count - jobs.length;
  return h("details", { key, open: dead.isOpen(group), ontoggle: (event) => {
    dead.turned[event.target.open === dead.open ? "delete" : "add"](key);
    look();
  } },
    h("summary", { "data-row": true },
      h("b", { class: "tone-fail num" }, group.count),
      h("span", { class: "what" }, h("b", null, error || "other errors"), " ", h("span", { class: "dim" }, `on ${platform}`)),
      h("span", { class: "message" }, newest?.error?.message),
      h("span", { class: "age", title: exact(newest?.endedAt) }, newest && ago(newest.endedAt)),
      h("span", { class: "acts" }, buttons(group, chosen, dead, look))),
    h("ul", null, jobs.map((job) => jobRow(job, platform, dead, look)),
      jobs.length > 0 && more > 0 && h("li", { key: "more" }, !dead.open ? h("a", { href: listPath(platform, "failed") }, `and ${more} more`)
        : dead.shown < MOST ? h("button", { type: "button", onclick: () => ((dead.shown = Math.min(MOST, 4 * dead.shown)), look()) }, `show more (${more} left)`)
          : `and ${more} more`)));
}

// For the selected jobs, else for all of the group.
function buttons(group, chosen, dead, look) {
  if (!chosen.length && !group.error) return null; // the gateway knows a group by its type
  const which = chosen.length ? `${chosen.length} selected` : group.count > 1 ? "all" : "";
  return ["replay", "drop"].map((word) => action(`${word} ${which}`.trim(), "act", async (event) => {
    event.preventDefault();
    const bulk = await part("platforms/bulk");
    if (bulk && (chosen.length ? await bulk.actOnChosen(chosen, word) : await bulk.actOnGroup(group, word))) {
      dead.forget();
      look();
    }
  }, { key: word, class: word === "drop" ? "danger" : "" }));
}

function jobRow(job, platform, dead, look) {
  return h("li", { key: job.jobId, "data-row": true },
    h("input", { type: "checkbox", class: "needs-act", "aria-label": `select ${job.jobId}`, checked: dead.chosen.has(job.jobId), onchange: (event) => {
      dead.chosen[event.target.checked ? "add" : "delete"](job.jobId);
      look();
    } }),
    h("a", { href: jobPath(job.jobId), title: job.jobId }, keyText(job.jobId)),
    h("span", { class: "dim kind" }, job.kind),
    h("span", { class: "message" }, job.error?.message),
    h("span", { class: "age", title: exact(job.endedAt) }, ago(job.endedAt)),
    action("edit args…", "submit", () => edit(job, platform), { class: "small", "aria-label": `edit the args of ${job.jobId} and submit them as a new job` }));
}

// The args of a job never change: edited ones make a new job.
async function edit(job, platform) {
  const { data } = await ask(`/api/jobs/${encodeURIComponent(job.jobId)}/args`).catch(() => ({ data: { kept: false } }));
  openSubmit({ platform, kind: job.kind, args: data.kept ? data.args : undefined, from: job.jobId });
}
