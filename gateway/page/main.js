// The page: which view this address is, the header, and the keys.

import { ask, leave, link, poll } from "/page/api.js";
import { openSubmit, sheet, showKeys, whisper } from "/page/dialogs.js";
import { bytes, count, jobPath, keep, zone } from "/page/words.js";

const by = (id) => document.getElementById(id);
const AROUND_MS = 10_000;

// The header

function showLink(before) {
  by("link").dataset.state = link.state;
  if (by("link-text").textContent !== link.words) by("link-text").textContent = link.words;
  if (before && before !== link.state && before !== "connecting") whisper(link.state === "lost" ? "connection lost" : `connection ${link.state}`);
}
link.changed = async (before) => {
  showLink(before);
  if (link.state === "signed out") (await import("/page/signin.js")).signIn();
};
setInterval(() => link.state === "lost" && showLink(), 500);

function showZone() {
  by("zone").textContent = zone.utc ? "UTC" : "local time";
  by("zone").setAttribute("aria-label", `Times are ${zone.utc ? "UTC" : "of this zone"}`);
}
document.addEventListener("zone", showZone);
showZone();

// What stands around the jobs. Whatever is wrong with the connection is for the views to say.
async function lookAround() {
  const [store, workers] = await Promise.all(["/api/store", "/api/v2/workers/status"].map((path) => ask(path).then(({ data }) => data, () => null)));
  if (store) {
    const { server, version, memoryBytes } = store;
    by("store").textContent = `store ${server} ${version.split(".", 2).join(".")}${memoryBytes == null ? "" : ` · ${bytes(memoryBytes)}`}`;
    by("store").title = `${server} ${version}`;
  }
  if (workers) by("workers-alive").textContent = count(workers.summary.alive_count, "worker");
}

// What the key may not do is not offered.
async function lookAtSession() {
  const session = await ask("/api/session").catch(() => null);
  if (!session) return;
  document.documentElement.dataset.may = session.data.scopes.join(" ");
  by("sign-out").hidden = !session.data.key;
}

by("sign-out").onclick = () => leave("/api/session").then(() => location.reload(), () => location.reload());
by("zone").onclick = () => zone.turn();
by("submit-open").onclick = () => openSubmit();
by("help-open").onclick = showKeys;
by("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  keep("theme", root.dataset.theme);
};
by("find").onsubmit = (event) => {
  event.preventDefault();
  const id = by("find-id").value.trim();
  if (id.includes(".")) location.href = jobPath(id);
  else if (id) import("/page/find.js").then(({ findKey }) => findKey(id));
};

// The keys

function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, here + by))];
  (next?.querySelector("a[href]") ?? next)?.focus();
}

const KEYS = {
  "/": () => by("find-id").select(),
  j: () => move(1),
  k: () => move(-1),
  n: () => openSubmit(),
  u: () => zone.turn(),
  "?": showKeys,
  Escape: () => location.pathname + location.search !== "/" && (location.href = "/"),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// Each view brings what it needs and no more.

const [, job] = location.pathname.match(/^\/jobs\/(.+)$/) ?? [];
const query = new URLSearchParams(location.search);
const view = job ? "job" : query.get("platform") ? "list" : "overview";
const [{ show }] = await Promise.all([import(`/page/${view}.js`), sheet(job ? "job" : "overview"), lookAtSession()]);
if (link.state !== "signed out") {
  if (job) show(by("main"), decodeURIComponent(job));
  else show(by("main"), query.get("platform"), query.get("state") || "active");
  poll(lookAround, AROUND_MS, () => {});
}
