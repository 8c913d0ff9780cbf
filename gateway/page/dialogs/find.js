// Find a job by its key, or by the end of the key as the page shows it, on every platform.

import { ask } from "../api.js";
import { say } from "../controls.js";
import { h } from "../dom.js";
import { jobPath } from "../words.js";
import { dialog } from "./dialog.js";

const AT_ONCE = 25; // platforms
const MOST = 500;
const STATES = ["active", "failed", "completed", "waiting", "delayed", "cancelled"];

export async function findKey(text) {
  const end = text.replace(/^(…|\.\.\.)/, "");
  const look = end === text ? byKey : byEnd;
  const platforms = await ask("/api/platforms?wait=0").then(({ data }) => data.map(({ platform }) => platform), () => null);
  if (!platforms) return say("Cannot search: the gateway does not answer.", "fail");
  const found = new Set(end === text ? [] : onThisPage(end));
  for (let i = 0; i < Math.min(MOST, platforms.length) && !found.size; i += AT_ONCE) {
    const ids = await Promise.all(platforms.slice(i, i + AT_ONCE).map((platform) => look(platform, end)));
    ids.flat().forEach((id) => found.add(id));
  }
  const asked = platforms.length > MOST ? `The first ${MOST} platforms have no job` : "No platform has a job";
  if (found.size === 1) location.href = jobPath([...found][0]);
  else if (!found.size) say(`${asked} with the key ${text}. A job id is platform.key.`, "fail");
  else dialog("found", `${found.size} jobs have this key`, h("ul", null, [...found].map((id) => h("li", { key: id }, h("a", { href: jobPath(id) }, h("code", null, id))))),
    h("form", { method: "dialog" }, h("menu", null, h("button", null, "Close"))));
}

const byKey = (platform, key) => ask(`/api/jobs/${encodeURIComponent(`${platform}.${key}`)}`).then(({ data }) => [data.jobId], () => []);

// Only the first thousand jobs of each state are searched by the end of their keys.
async function byEnd(platform, end) {
  const pages = await Promise.all(STATES.map((state) => ask(`/api/platforms/${platform}/jobs?state=${state}&limit=1000`).then(({ data }) => data, () => [])));
  return pages.flat().map((job) => job.jobId).filter((id) => id.endsWith(end));
}

const onThisPage = (end) => [...document.querySelectorAll(`a[href^="${jobPath("")}"]`)].map((link) => decodeURIComponent(link.pathname.slice(jobPath("").length))).filter((id) => id.endsWith(end));
