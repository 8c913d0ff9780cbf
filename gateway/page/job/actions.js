// What a person can do with one job. Each action asks once and says how it went.

import { act } from "../api.js";
import { attempt, confirm, say } from "../controls.js";
import { home } from "../words.js";

export async function copy({ id }) {
  try {
    await navigator.clipboard.writeText(id);
    say("Job id copied.");
  } catch {
    getSelection().selectAllChildren(document.querySelector("h1"));
    say("The job id is selected. Copy it with the keyboard.");
  }
}

// Scroll to the row of an event and highlight it.
export function light({ log, eventId }) {
  const row = [...log.querySelectorAll("[data-id]")].find((each) => each.dataset.id === eventId);
  log.querySelector(".events").scrollTop = row?.offsetTop - row?.parentNode.offsetTop - 40;
  row?.scrollIntoView({ block: "nearest" });
  row?.classList.remove("lit");
  requestAnimationFrame(() => row?.classList.add("lit"));
}

export async function cancel({ path, story }) {
  const running = story.running ? "The running attempt is asked to stop at the next beat of its worker." : "The job is not running and will not start.";
  if (!(await confirm("Cancel this job?", running, "Cancel the job", "danger"))) return;
  await attempt(() => act(`${path}/cancel`, { by: "the page" }), (answer) => (answer.status === "cancelling" ? "The running attempt is asked to stop." : "The job is cancelled."));
}

export async function retry({ path, reopen }) {
  if (!(await confirm("Retry this job?", "The job waits again with all its attempts, and keeps its history.", "Retry the job"))) return;
  if (await attempt(() => act(`${path}/retry`, { by: "the page" }), ({ failedChild }) => (failedChild ? `The job is waiting again, but it failed by ${failedChild}. Retry that job: it brings this one back.` : "The job is waiting again."))) reopen();
}

export async function drop({ path }) {
  if (!(await confirm("Drop this job?", "The job and its history are deleted for good.", "Drop 1 job", "danger"))) return;
  if (await attempt(() => act(`${path}/drop`), () => "The job is dropped.")) location.href = home;
}
