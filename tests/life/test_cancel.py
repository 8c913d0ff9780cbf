"""Cancel from anywhere: a waiting job ends at once, a running one soon; a race with its end has one winner."""

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from tailrace.streams.history.events import Event
from tailrace.streams.states import State, Status
from tests.life.asking import ask, cancel, happened
from tests.support.builders import tell
from tests.support.checker import unclean
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED, Pace

RACES = 200
MANY = 120  # jobs of one process; a line of its heart tells of 15
RACES_OVER_HTTP = 40
WORK_SECONDS = 0.01


def told(history: list[Event]) -> list[str]:
    return [tell(event) for event in history]


async def test_a_job_that_nobody_runs_is_cancelled_at_once(standing: Deployment) -> None:
    waiting = await ask(standing, "default")  # which nobody serves
    delayed = await ask(standing, "default", delay_seconds=60)
    resting = await ask(standing, "research", args={"fail_times": 2}, backoff_seconds=60)
    await happened(standing, resting, Status.RETRYING)
    assert [await cancel(standing, job) for job in (waiting, delayed, resting)] == ["ok", "ok", "ok"]
    assert told(await standing.history(waiting)) == ["queued", "cancelled"]
    assert told(await standing.history(delayed)) == ["queued", "delayed", "cancelled"]
    assert told(await standing.history(resting)) == ["queued", "started 1", "retrying 1", "cancelled 1"]
    for job in (waiting, delayed, resting):
        last = (await standing.history(job))[-1]
        assert (last.by, last.reason) == ("ops", "not needed")


async def test_a_running_job_stops_with_the_next_beat(standing: Deployment) -> None:
    (consumer,) = await standing.beats("kurly")
    job = await ask(standing, "kurly", args={"seconds": 600})
    behind = await ask(standing, "kurly")
    await standing.started(job)
    assert await cancel(standing, job) == "cancelling"
    history = await standing.ended(job)
    assert told(history) == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    asked, ended = history[2:]
    assert (asked.by, asked.reason) == (ended.by, ended.reason) == ("ops", "not needed")
    assert ended.workerId == consumer
    await standing.ended(behind)
    assert await cancel(standing, job) == "again"


async def test_a_job_that_reports_hears_of_it_at_once(deployment: Deployment) -> None:
    await deployment.consumer("kurly", pace=Pace(deadline=300.0, beat=100.0))
    job = await ask(deployment, "kurly", args={"steps": 500, "seconds": 0.05})
    await deployment.reached(job, 1)
    assert await cancel(deployment, job) == "cancelling"
    history = await deployment.ended(job)
    assert [event.status for event in history[-2:]] == [Status.CANCELLING, Status.CANCELLED]


async def test_a_handler_that_ends_as_if_nothing_had_happened_changes_nothing(standing: Deployment) -> None:
    jobs = [await ask(standing, "research", kind) for kind in ("carries-on", "never-stops")]
    for job in jobs:
        await standing.reached(job, 1)
        assert await cancel(standing, job) == "cancelling"
    for job in jobs:
        history = await standing.ended(job)
        assert told(history) == ["queued", "started 1", "progress 1 step 1", "cancelling 1", "cancelled 1"]
        assert history[-1].result is None


async def test_a_job_whose_worker_dies_while_it_is_asked_to_stop_ends_cancelled(deployment: Deployment) -> None:
    worker = await deployment.consumer("kurly")
    job = await ask(deployment, "kurly", args={"seconds": 60})
    await deployment.started(job)
    worker.freeze()
    assert await cancel(deployment, job) == "cancelling"
    worker.kill_group()
    await deployment.consumer("kurly")
    assert told(await deployment.ended(job)) == ["queued", "started 1", "cancelling 1", "cancelled 1"]


async def test_more_jobs_of_one_process_than_one_line_tells_are_all_stopped(valkey_url: str, tmp_path: Path) -> None:
    """Each of them has its time to stop from when it is asked to: the process of jobs that obey is not ended."""
    async with Deployment(valkey_url, tmp_path, f"[platforms.research]\nper_process = {MANY}\n") as deployment:
        worker = await deployment.consumer("research", pace=Pace(deadline=6.0, beat=2.0), TAILRACE_OBEY_SECONDS="0.5")
        jobs = [await ask(deployment, "research", args={"seconds": 60}) for _ in range(MANY)]

        async def all_run() -> bool:
            return len(await deployment.leases("research")) == MANY

        await eventually("all run", all_run)
        assert {await cancel(deployment, job) for job in jobs} == {"cancelling"}
        histories = await deployment.all_ended(jobs)
        assert {tuple(told(history)) for history in histories.values()} == {
            ("queued", "started 1", "cancelling 1", "cancelled 1")
        }
        assert worker.alive


@pytest.mark.chaos
async def test_a_job_that_blocks_its_worker_is_cancelled_and_the_other_jobs_go_on(deployment: Deployment) -> None:
    worker = await deployment.consumer("kurly", "ably", TAILRACE_OBEY_SECONDS="0.5")
    other = await ask(deployment, "ably", args={"seconds": 1.0})
    await deployment.started(other)
    job = await ask(deployment, "kurly", args={"seconds": 60, "block": "regex"})
    await deployment.started(job)
    assert await cancel(deployment, job) == "cancelling"
    history = await deployment.ended(job)
    assert told(history) == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    assert (history[-1].by, history[-1].error) == ("ops", None)
    assert await worker.ended() == -9
    await deployment.consumer("kurly", "ably")
    history = await deployment.ended(other)
    assert [event.reason for event in history if event.status is Status.SUPERSEDED] == ["released"]
    assert (await deployment.record(other)).crashes == 0


ENDS = {"ok": Status.CANCELLED, "cancelling": Status.CANCELLED, "completed": Status.COMPLETED}
"""How a job must end, by what its cancel answered."""


async def test_a_cancel_that_races_with_the_end_agrees_with_the_history(deployment: Deployment, dice: Random) -> None:
    await deployment.consumers(2, "research", pace=UNHURRIED)
    jobs = [
        await ask(deployment, "research", args={"seconds": dice.uniform(0, 2 * WORK_SECONDS)})
        for _ in range(RACES // 2)
    ]

    async def race(job: str) -> str:
        await asyncio.sleep(dice.uniform(0, RACES // 2 * WORK_SECONDS / 20))
        return await cancel(deployment, job)

    async def race_at_the_end(_: int) -> tuple[str, str]:
        """A job of its own, cancelled at the moment when it is about to end."""
        job = await ask(deployment, "research", args={"seconds": WORK_SECONDS})
        asked = asyncio.get_running_loop().time()
        while (await deployment.record(job)).state is State.WAITING:
            assert asyncio.get_running_loop().time() < asked + 20
        await asyncio.sleep(dice.uniform(0, 2 * WORK_SECONDS))
        return job, await cancel(deployment, job)

    answers = await asyncio.gather(*map(race, jobs))
    for _ in range(RACES // 2 // 10):  # ten at a time: each of them runs at once
        for job, answer in await asyncio.gather(*map(race_at_the_end, range(10))):
            jobs.append(job)
            answers.append(answer)
    histories = await deployment.all_ended(jobs)
    assert unclean(histories) == []
    for (job, history), answer in zip(histories.items(), answers, strict=True):
        assert history[-1].status is ENDS[answer], f"{job}: {answer}, but {told(history)}"
        assert (Status.CANCELLING in {event.status for event in history}) == (answer == "cancelling")
    assert len(set(answers)) > 1, "there was no race"


async def test_over_http_the_answer_agrees_with_the_history_too(standing: Deployment, dice: Random) -> None:
    gateway = await standing.gateway()
    body = {"platform": "research", "kind": "drill", "args": {"steps": 1, "seconds": WORK_SECONDS}}

    async def race() -> tuple[str, int, str]:
        reply = await standing.http.post(f"{gateway.url}/api/jobs", json=body)
        job: str = reply.json()["jobId"]
        await asyncio.sleep(dice.uniform(0, 4 * WORK_SECONDS))
        answer = await standing.http.post(f"{gateway.url}/api/jobs/{job}/cancel", json={"by": "ops"})
        return job, answer.status_code, answer.json().get("status")

    for job, code, said in [await race() for _ in range(RACES_OVER_HTTP)]:
        history = await standing.ended(job)
        end = history[-1].status
        assert unclean({job: history}) == []
        if code == 409:
            assert end is Status.COMPLETED
        else:
            assert (code, said) in {(200, "cancelled"), (202, "cancelling")}
            assert (end, history[-1].by) == (Status.CANCELLED, "ops")
        shown = await standing.http.get(f"{gateway.url}/api/jobs/{job}")
        assert msgspec.json.decode(shown.content)["data"]["status"] == end
