// Replay or drop many failed jobs: all of a group, in batches, or the selected ones.

import { act } from "../api.js";
import { confirm, say } from "../controls.js";
import { count } from "../words.js";

const BATCH = 1000; // jobs in one request
const AT_ONCE = 4; // requests, when single jobs are acted on

const done = (word, n) => `${word === "replay" ? "Replayed" : "Dropped"} ${n}`;

const sure = (n, word, which) => (word === "replay"
  ? confirm(`Replay ${count(n, "failed job")}?`, `${which}: each job waits again and keeps its history.`, `Replay ${n}`)
  : confirm(`Drop ${count(n, "failed job")}?`, `${which}: deleted for good, with their histories.`, `Drop ${n}`, "danger"));

// All that had failed when the question was asked: jobs that fail again meanwhile are left out, so this ends.
export async function actOnGroup({ platform, error, count: all, newest }, word) {
  if (!(await sure(all, word, `${error} on ${platform}`))) return false;
  const body = { error, limit: BATCH, ...(newest && { ended_by: newest.endedAt }), ...(word === "replay" && { by: "the page" }) };
  let total = 0;
  try {
    for (let last = BATCH, left = all; last && left; total += last) {
      const answer = await act(`/api/platforms/${platform}/${word}`, body);
      last = answer.replayed ?? answer.dropped;
      left = answer.left;
      if (left) say(`${done(word, total + last)} of ${all} …`);
    }
    say(`${done(word, total)}.`);
  } catch (problem) {
    say(`${done(word, total)} of ${all}, then: ${problem.message}`, "fail");
  }
  return true;
}

export async function actOnChosen(jobs, word) {
  if (!(await sure(jobs.length, word, jobs.length === 1 ? jobs[0].jobId : "the selected jobs"))) return false;
  const left = [...jobs];
  let n = 0;
  let refused = "";
  const [way, body] = word === "replay" ? ["retry", { by: "the page" }] : ["drop", {}];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let job = left.shift(); job; job = left.shift()) {
      await act(`/api/jobs/${encodeURIComponent(job.jobId)}/${way}`, body).then(() => n++, (error) => (refused = error.message));
    }
  }));
  say(refused ? `${done(word, n)}, ${jobs.length - n} refused: ${refused}.` : `${done(word, n)}.`, refused && "fail");
  return true;
}
