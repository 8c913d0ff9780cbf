// The flow of a job: the job that spawned it, and the jobs that it spawned, as a tree that is asked for again while some
// of them have not ended.

import { ask } from "../api.js";
import { sheet } from "../controls.js";
import { draw, h } from "../dom.js";
import { count, jobPath, TONES } from "../words.js";

const AGAIN_MS = 2000;
const WORDS = { active: "running", "waiting-children": "awaiting" }; // of the page, for states over HTTP
const ENDED = ["completed", "failed", "cancelled"];

// Shows the flow of a job in a room of the page. Returns a function that looks again: the job has news.
export function watchFlow(room, path) {
  let pages = 1; // of children that are shown
  let timer, parent;

  async function look(job) {
    clearTimeout(timer);
    parent = job?.parent ?? parent;
    const children = [];
    let flow = null;
    try {
      for (let page = 0; page < pages && (page === 0 || flow.next); page++) {
        flow = (await ask(`${path}/flow${flow ? `?after=${encodeURIComponent(flow.next)}` : ""}`)).data;
        children.push(...flow.children);
      }
    } catch { /* what is shown stays, and is asked for again */ }
    if (flow && (children.length || parent)) {
      if (!room.firstChild) await sheet("job/flow");
      show(flow, children);
    }
    if (!flow || children.some((child) => !ENDED.includes(child.status))) again();
  }

  const again = () => (timer = setTimeout(() => (document.hidden ? again() : look()), AGAIN_MS));

  function show(flow, children) {
    const states = Object.entries(Object.groupBy(children, ({ status }) => WORDS[status] ?? status));
    draw(room,
      h("div", { class: "head" }, h("h2", null, "Flow"), h("p", null, [
        children.length > 0 && `${count(flow.next ? flow.total : children.length, "child", "children")}: ${states.map(([state, all]) => `${all.length} ${state}`).join(" · ")}`])),
      parent && h("p", { class: "dim", key: "parent" }, "spawned by ", h("a", { href: jobPath(parent) }, h("code", null, parent))),
      tree(children),
      flow.next && h("button", { type: "button", class: "small", onclick: () => (pages++, look()) }, "show more children"));
  }

  return look;
}

const tree = (children) => children.length > 0 && h("ul", { class: "flow" }, children.map(node));

function node({ jobId, kind, status, progress, total, children }) {
  const word = WORDS[status] ?? status;
  return h("li", { key: jobId },
    h("div", { "data-row": true, "data-job": jobId },
      h("span", { class: `state tone-${TONES[status] ?? "wait"}` }, word),
      h("a", { href: jobPath(jobId) }, h("code", null, jobId)),
      h("span", { class: "dim" }, kind ?? "no longer kept"),
      word === "running" && progress != null && h("span", { class: "num" }, `${Math.round(progress)} %`),
      total > children.length && h("span", { class: "dim" }, `brought ${count(total, "job")}`)),
    tree(children));
}
