// The form for a new job.

import { act, ask, Problem } from "/page/api.js";
import { draw, h } from "/page/dom.js";
import { jobPath } from "/page/words.js";

const by = (id) => document.getElementById(id);
const EXAMPLES = {
  drill: { steps: 5, seconds: 2, fail_times: 0 },
  research: { query: "tides" },
  scan: { workflow_id: "scan", params: { product_ids: ["a-1", "a-2", "a-3"] } },
  "make-plan": { userId: "u-1", goal: "pass the exam", materialIds: ["m-1", "m-2"] },
  "process-material": { materialId: "m-1", document: "notes.txt" },
};

export async function openSubmit(given = {}) {
  const form = by("submit-form").elements;
  by("submit-wrong").textContent = "";
  if (!by("submit").open) by("submit").showModal();
  try {
    const { data } = await ask("/api/platforms");
    draw(form.platform, data.map(({ platform }) => h("option", { value: platform, key: platform }, platform)));
  } catch {
    by("submit-wrong").textContent = "The gateway does not answer just now.";
  }
  if (given.platform) form.platform.value = given.platform;
  form.kind.value = given.kind ?? (form.kind.value || "drill");
  if (given.args !== undefined) form.args.value = JSON.stringify(given.args, null, 2);
  else if (!form.args.value) example();
}

function example() {
  const form = by("submit-form").elements;
  const known = Object.values(EXAMPLES).map((args) => JSON.stringify(args, null, 2));
  const untouched = !form.args.value.trim() || known.includes(form.args.value);
  if (untouched && EXAMPLES[form.kind.value]) form.args.value = JSON.stringify(EXAMPLES[form.kind.value], null, 2);
}

async function submit(event) {
  event.preventDefault();
  const form = by("submit-form").elements;
  const wrong = by("submit-wrong");
  const body = { platform: form.platform.value, kind: form.kind.value.trim(), priority: form.priority.value };
  if (form.id.value.trim()) body.id = form.id.value.trim();
  if (form.delay_seconds.value) body.delay_seconds = Number(form.delay_seconds.value);
  try {
    body.args = JSON.parse(form.args.value.trim() || "{}");
  } catch (error) {
    wrong.textContent = `The args are not JSON: ${error.message}`;
    form.args.focus();
    return;
  }
  try {
    const { jobId } = await act("/api/jobs", body);
    location.href = jobPath(jobId);
  } catch (error) {
    wrong.textContent = error instanceof Problem ? error.message : "The gateway did not answer.";
    form[error.field?.split(".")[0]]?.focus?.();
  }
}

by("submit-form").onsubmit = submit;
by("submit-form").elements.kind.oninput = example;
by("submit-close").onclick = () => by("submit").close();
