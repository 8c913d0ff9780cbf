// What a person can do with one job. Each action asks once and says how it went.

import { act } from "../api.js";
import { attempt, confirm, say } from "../controls.js";

export async function copy({ id }) {
  try {
    await navigator.clipboard.writeText(id);
    say("The id is copied.");
  } catch {
    getSelection().selectAllChildren(document.querySelector("h1"));
    say("The id is selected: copy it with the keyboard.");
  }
}

// The row of an event comes into sight and lights up.
export function light({ log, eventId }) {
  const row = [...log.querySelectorAll("[data-id]")].find((each) => each.dataset.id === eventId);
  log.querySelector(".events").scrollTop = row?.offsetTop - row?.parentNode.offsetTop - 40;
  row?.scrollIntoView({ block: "nearest" });
  row?.classList.remove("lit");
  requestAnimationFrame(() => row?.classList.add("lit"));
}

export async function cancel({ path, story }) {
  const running = story.running ? "Its attempt is asked to stop with the next beat." : "It has not started and never will.";
  if (!(await confirm("Cancel this job?", running, "Cancel the job", "danger"))) return;
  await attempt(() => act(`${path}/cancel`, { by: "the page" }), (answer) => (answer.status === "cancelling" ? "Its attempt was asked to stop." : "The job is cancelled."));
}

export async function retry({ path, reopen }) {
  if (!(await confirm("Retry this job?", "It goes back in line with new budgets and keeps its history.", "Retry the job"))) return;
  if (await attempt(() => act(`${path}/retry`, { by: "the page" }), () => "Back in line.")) reopen();
}

export async function drop({ path }) {
  if (!(await confirm("Drop this job?", "It and its history are gone for good.", "Drop 1 job", "danger"))) return;
  if (await attempt(() => act(`${path}/drop`), () => "Dropped.")) location.href = "/";
}
