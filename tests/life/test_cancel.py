"""Cancel from anywhere: a job that nobody runs ends at once, one that runs soon; a race with its end has one winner."""

import asyncio
from random import Random

import msgspec
import pytest

from streams.messages import Event
from streams.states import State, Status
from tests.life.asking import STEERED, ask, at, cancel, happened
from tests.support.builders import tell
from tests.support.checker import unclean
from tests.support.deployment import Deployment
from tests.support.processes import Pace

RACES = 200
RACES_OVER_HTTP = 40
WORK_SECONDS = 0.01


def told(history: list[Event]) -> list[str]:
    return [tell(event) for event in history]


async def test_a_job_that_nobody_runs_is_cancelled_at_once(deployment: Deployment) -> None:
    waiting = await ask(deployment, "kurly")
    delayed = await ask(deployment, "kurly", delay_seconds=60)
    await deployment.consumer("research")
    resting = await ask(deployment, "research", args={"fail_times": 2}, backoff_seconds=60)
    await happened(deployment, resting, Status.RETRYING)
    assert [await cancel(deployment, job) for job in (waiting, delayed, resting)] == ["ok", "ok", "ok"]
    assert told(await deployment.history(waiting)) == ["queued", "cancelled"]
    assert told(await deployment.history(delayed)) == ["queued", "delayed", "cancelled"]
    assert told(await deployment.history(resting)) == ["queued", "started 1", "retrying 1", "cancelled 1"]
    for job in (waiting, delayed, resting):
        last = (await deployment.history(job))[-1]
        assert (last.by, last.reason) == ("ops", "not needed")


async def test_a_running_job_stops_with_the_next_beat(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly")
    job = await ask(deployment, "kurly", args={"seconds": 60})
    behind = await ask(deployment, "kurly")
    await deployment.started(job)
    assert await cancel(deployment, job) == "cancelling"
    history = await deployment.ended(job)
    assert told(history) == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    asked, ended = history[2:]
    assert (asked.by, asked.reason) == (ended.by, ended.reason) == ("ops", "not needed")
    assert ended.workerId == consumer.owner
    assert at(ended.time) - at(asked.time) < consumer.pace.beat + 1.0
    await deployment.ended(behind)
    assert await cancel(deployment, job) == "again"


async def test_a_job_that_reports_hears_of_it_at_once(deployment: Deployment) -> None:
    await deployment.consumer("kurly", pace=Pace(deadline=30.0, beat=10.0))
    job = await ask(deployment, "kurly", args={"steps": 500, "seconds": 0.05})
    await deployment.reached(job, 1)
    assert await cancel(deployment, job) == "cancelling"
    history = await deployment.ended(job)
    assert at(history[-1].time) - at(history[-2].time) < 2.0
    assert [event.status for event in history[-2:]] == [Status.CANCELLING, Status.CANCELLED]


async def test_a_handler_that_ends_as_if_nothing_had_happened_changes_nothing(deployment: Deployment) -> None:
    await deployment.consumer("research", TAILRACE_HANDLERS=STEERED, TAILRACE_OBEY_SECONDS="0.5")
    jobs = [await ask(deployment, "research", kind) for kind in ("carries-on", "never-stops")]
    for job in jobs:
        await deployment.reached(job, 1)
        assert await cancel(deployment, job) == "cancelling"
    for job in jobs:
        history = await deployment.ended(job)
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
    await deployment.consumers(2, "research")
    jobs = [
        await ask(deployment, "research", args={"seconds": dice.uniform(0, 2 * WORK_SECONDS)})
        for _ in range(RACES // 2)
    ]

    async def race(job: str) -> str:
        await asyncio.sleep(dice.uniform(0, RACES // 2 * WORK_SECONDS / 20))
        return await cancel(deployment, job)

    answers = await asyncio.gather(*map(race, jobs))
    more = [await ask(deployment, "research", args={"seconds": WORK_SECONDS}) for _ in range(RACES // 2)]
    for job in more:  # at the moment when it is about to end
        asked = asyncio.get_running_loop().time()
        while (await deployment.record(job)).state is State.WAITING:
            assert asyncio.get_running_loop().time() < asked + 20
        await asyncio.sleep(dice.uniform(0, 2 * WORK_SECONDS))
        answers.append(await cancel(deployment, job))
    histories = await deployment.all_ended([*jobs, *more])
    assert unclean(histories) == []
    for (job, history), answer in zip(histories.items(), answers, strict=True):
        assert history[-1].status is ENDS[answer], f"{job}: {answer}, but {told(history)}"
        assert (Status.CANCELLING in {event.status for event in history}) == (answer == "cancelling")
    assert len(set(answers)) > 1, "there was no race"


async def test_over_http_the_answer_agrees_with_the_history_too(deployment: Deployment, dice: Random) -> None:
    gateway = await deployment.gateway()
    await deployment.consumer("research")
    body = {"platform": "research", "kind": "drill", "args": {"steps": 1, "seconds": WORK_SECONDS}}

    async def race() -> tuple[str, int, str]:
        reply = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
        job: str = reply.json()["jobId"]
        await asyncio.sleep(dice.uniform(0, 4 * WORK_SECONDS))
        answer = await deployment.http.post(f"{gateway.url}/api/jobs/{job}/cancel", json={"by": "ops"})
        return job, answer.status_code, answer.json().get("status")

    for job, code, said in [await race() for _ in range(RACES_OVER_HTTP)]:
        history = await deployment.ended(job)
        end = history[-1].status
        assert unclean({job: history}) == []
        if code == 409:
            assert end is Status.COMPLETED
        else:
            assert (code, said) in {(200, "cancelled"), (202, "cancelling")}
            assert (end, history[-1].by) == (Status.CANCELLED, "ops")
        shown = await deployment.http.get(f"{gateway.url}/api/jobs/{job}")
        assert msgspec.json.decode(shown.content)["data"]["status"] == end
