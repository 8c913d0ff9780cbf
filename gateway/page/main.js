// The page: which view this address is, the header, and the keys.

import { ask, leave, link, poll } from "./api.js";
import { openSubmit, part, sheet, showKeys, whisper } from "./controls.js";
import { bytes, clock, count, home, jobPath, keep, zone } from "./words.js";

const by = (id) => document.getElementById(id);
const AROUND_MS = 10_000;

// The header

const set = (id, words) => by(id).textContent !== words && (by(id).textContent = words);

function showLink(before) {
  const lost = link.state === "lost";
  const why = link.why || "the connection is lost";
  by("link").dataset.state = document.documentElement.dataset.link = link.state;
  set("link-text", link.words);
  set("stale", lost && link.shown ? `showing ${clock(link.since)}; ${why}` : "");
  set("first", lost && !link.shown ? `Nothing to show yet: ${why}. The page tries again by itself.` : "");
  by("submit-open").disabled = lost;
  if (before && before !== link.state && before !== "connecting") whisper(link.state === "lost" ? "connection lost" : `connection ${link.state}`);
}
link.changed = async (before) => {
  showLink(before);
  if (before !== link.state) document.dispatchEvent(new Event("redraw"));
  if (link.state === "signed out") (await part("dialogs/signin"))?.signIn();
  else if (before === "lost" && link.state !== "lost" && !document.documentElement.dataset.may) lookAtSession();
};
setInterval(() => link.state === "lost" && showLink(), 500);

function showZone() {
  by("zone").textContent = zone.utc ? "UTC" : "local time";
  by("zone").setAttribute("aria-label", `Times are ${zone.utc ? "UTC" : "local time"}`);
}
document.addEventListener("redraw", showZone);
showZone();

// The store and the workers.
async function lookAround() {
  const [store, workers] = await Promise.all(["/api/store", "/api/v2/workers/status"].map((path) => ask(path).then((answer) => answer.data, () => null)));
  if (store) {
    const { server, version, memoryBytes, nodes } = store;
    by("store").textContent = `store ${server} ${version.split(".", 2).join(".")}${memoryBytes == null ? "" : ` · ${bytes(memoryBytes)}`}`;
    by("store").title = `${server} ${version}`;
    if (nodes) (await part("nodes"))?.show(by("store"), nodes);
  }
  if (workers) by("workers-alive").textContent = count(workers.summary.alive_count, "worker");
}

// What the key may not do is hidden.
async function lookAtSession() {
  const session = await ask("/api/session").catch(() => null);
  if (!session) return;
  document.documentElement.dataset.may = session.data.scopes.join(" ");
  document.documentElement.dataset.kinds = session.data.kinds.join(" ");
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
  else if (id) part("dialogs/find").then((find) => find?.findKey(id));
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
  n: () => by("submit-open").checkVisibility() && !by("submit-open").disabled && openSubmit(),
  u: () => zone.turn(),
  "?": showKeys,
  Escape: () => location.pathname + location.search !== home && (location.href = home),
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

const [, job] = location.pathname.slice(home.length).match(/^jobs\/(.+)$/) ?? [];
const query = new URLSearchParams(location.search);
const view = job ? "job/job" : query.get("platform") ? "platforms/list" : "platforms/overview";
const [here] = await Promise.all([part(view), sheet(job ? "job/job" : "platforms/overview"), lookAtSession()]);
if (!here) set("first", "A part of this page could not be loaded: the gateway does not answer. Reload the page.");
else if (link.state !== "signed out") {
  const { show } = here;
  if (job) show(by("main"), decodeURIComponent(job));
  else show(by("main"), query.get("platform"), query.get("state") || "active");
  poll(lookAround, AROUND_MS, () => {});
}
