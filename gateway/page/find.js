// A job by its key alone: each platform is asked once.

import { ask } from "/page/api.js";
import { dialog } from "/page/asking.js";
import { say } from "/page/dialogs.js";
import { h } from "/page/dom.js";
import { jobPath } from "/page/words.js";

const MOST = 50; // platforms

export async function findKey(key) {
  const platforms = await ask("/api/platforms?wait=0").then(({ data }) => data, () => []);
  const asked = platforms.slice(0, MOST).map(({ platform }) => `${platform}.${key}`);
  const there = await Promise.all(asked.map((id) => ask(`/api/jobs/${encodeURIComponent(id)}`).then(() => true, () => false)));
  const found = asked.filter((_, i) => there[i]);
  if (found.length === 1) location.href = jobPath(found[0]);
  else if (!found.length) say(`No platform has a job with the key ${key}. An id is platform.key, for example research.${key}.`, "fail");
  else dialog("found", `${found.length} jobs have this key`, h("ul", null, found.map((id) => h("li", { key: id }, h("a", { href: jobPath(id) }, h("code", null, id))))),
    h("form", { method: "dialog" }, h("menu", null, h("button", null, "Close"))));
}
