// The form for a new job.

import { act, ask, Problem } from "../api.js";
import { h } from "../dom.js";
import { jobPath } from "../words.js";
import { dialog } from "./dialog.js";

const by = (id) => document.getElementById(id);
const EXAMPLES = {
  drill: { steps: 5, seconds: 2, fail_times: 0 },
  research: { query: "tides" },
  scan: { workflow_id: "scan", params: { product_ids: ["a-1", "a-2", "a-3"] } },
  "make-plan": { userId: "u-1", goal: "pass the exam", materialIds: ["m-1", "m-2"] },
  "process-material": { materialId: "m-1" },
};

// `from`: the job whose platform, kind and args are filled in; it does not change.
export async function openSubmit(given = {}) {
  let platforms = [];
  let kinds = Object.keys(EXAMPLES);
  let wrong = "";
  try {
    const [shown, session] = await Promise.all([ask("/api/platforms?wait=0"), ask("/api/session")]);
    platforms = shown.data.map(({ platform }) => platform);
    kinds = kinds.filter((kind) => session.data.kinds.includes(kind)); // a gateway may refuse some
  } catch {
    wrong = "The gateway does not answer.";
  }
  dialog("submit", given.from ? "Edit and submit as a new job" : "New job", form(given, platforms, kinds));
  const fields = by("submit-form").elements;
  by("submit-wrong").textContent = wrong;
  if (given.platform) fields.platform.value = given.platform;
  fields.kind.value = given.kind ?? (fields.kind.value || (kinds[0] ?? ""));
  if (given.args !== undefined) fields.args.value = JSON.stringify(given.args, null, 2);
  else if (!fields.args.value || given.from) example(!!given.from);
  if (given.from) fields.args.focus();
}

function form({ from }, platforms, kinds) {
  const text = { autocomplete: "off", spellcheck: "false" };
  return h("form", { id: "submit-form", onsubmit: submit },
    from && h("p", { class: "dim" }, h("code", null, from), " does not change; you submit a new job."),
    h("div", { class: "fields" },
      h("label", null, "Platform ", h("select", { name: "platform", required: true }, platforms.map((name) => h("option", { value: name, key: name }, name)))),
      h("label", null, "Kind ", h("input", { ...text, name: "kind", list: "kinds", required: true, maxlength: 64, oninput: () => example() }))),
    h("label", null, "Args, as JSON ", h("textarea", { name: "args", rows: 8, spellcheck: "false" })),
    h("div", { class: "fields" },
      h("label", null, "Key ", h("span", { class: "dim" }, "(optional)"), h("input", { ...text, name: "id", maxlength: 64 })),
      h("label", null, "Priority ", h("select", { name: "priority" }, ["normal", "urgent", "high", "low"].map((name) => h("option", null, name)))),
      h("label", null, "Delay, seconds ", h("input", { name: "delay_seconds", type: "number", min: "0", step: "any", placeholder: "0" }))),
    h("p", { id: "submit-wrong", class: "wrong", role: "alert" }),
    h("menu", null, h("button", { type: "button", onclick: () => by("submit").close() }, "Close"), h("button", { class: "primary" }, from ? "Submit as a new job" : "Submit")),
    h("datalist", { id: "kinds" }, kinds.map((kind) => h("option", { key: kind, value: kind }))));
}

function example(replace = false) {
  const fields = by("submit-form").elements;
  const known = Object.values(EXAMPLES).map((args) => JSON.stringify(args, null, 2));
  const untouched = replace || !fields.args.value.trim() || known.includes(fields.args.value);
  if (untouched) fields.args.value = JSON.stringify(EXAMPLES[fields.kind.value] ?? {}, null, 2);
}

async function submit(event) {
  event.preventDefault();
  const fields = by("submit-form").elements;
  const wrong = by("submit-wrong");
  const body = { platform: fields.platform.value, kind: fields.kind.value.trim(), priority: fields.priority.value };
  if (fields.id.value.trim()) body.id = fields.id.value.trim();
  if (fields.delay_seconds.value) body.delay_seconds = Number(fields.delay_seconds.value);
  try {
    body.args = JSON.parse(fields.args.value.trim() || "{}");
  } catch (error) {
    wrong.textContent = `The args are not JSON: ${error.message}`;
    fields.args.focus();
    return;
  }
  try {
    const { jobId } = await act("/api/jobs", body);
    location.href = jobPath(jobId);
  } catch (error) {
    wrong.textContent = error instanceof Problem ? error.message : "The gateway did not answer.";
    fields[error.field?.split(".")[0]]?.focus?.();
  }
}
