// The page: which view this address is, the header, and the keys.

import { link } from "/page/api.js";
import { openSubmit, prepareDialogs, whisper } from "/page/dialogs.js";
import { jobPath } from "/page/words.js";

const by = (id) => document.getElementById(id);

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

by("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch { /* then it holds for this page alone */ }
};

by("find").onsubmit = (event) => {
  event.preventDefault();
  const id = by("find-id").value.trim();
  if (id) location.href = jobPath(id);
};

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
  "?": () => by("help").showModal(),
  Escape: () => location.pathname + location.search !== "/" && (location.href = "/"),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

prepareDialogs();
const [, job] = location.pathname.match(/^\/jobs\/(.+)$/) ?? [];
const query = new URLSearchParams(location.search);
// Each view brings what it needs and no more.
if (job) (await import("/page/job.js")).showJob(by("main"), decodeURIComponent(job));
else if (query.get("platform")) (await import("/page/list.js")).showList(by("main"), query.get("platform"), query.get("state") || "active");
else (await import("/page/overview.js")).showOverview(by("main"));
