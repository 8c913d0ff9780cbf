"""kill -9: what becomes of the job, and when."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from streams.messages import Event
from streams.states import Status
from tests.support.builders import tell
from tests.support.deployment import PACE, Deployment
from tests.support.eventually import eventually
from tests.support.processes import ConsumerProcess, Pace

PATIENT = Pace(deadline=3.0, beat=0.3, reap=0.3)  # time for a new heart to start on a busy machine


def at(event: Event) -> float:
    return datetime.fromisoformat(event.time).timestamp()


async def last_beat(deployment: Deployment, platform: str, owner: str) -> float:
    """A time just before the beat after which the owner's counter stood still for most of a deadline."""
    counter, before, looked = "", 0.0, time.time()
    while time.time() < before + 0.9 * PACE.deadline or not counter:
        look = time.time()
        seen = (await deployment.beats(platform)).get(owner, "")
        if seen != counter:
            counter, before = seen, looked
        looked = look
        await asyncio.sleep(0.002)
    return before


@pytest.mark.parametrize("kill", [ConsumerProcess.kill, ConsumerProcess.kill_group], ids=["consumer", "heart-too"])
async def test_a_killed_worker_is_replaced_after_its_deadline_and_soon_after(
    deployment: Deployment, kill: Callable[[ConsumerProcess], None]
) -> None:
    consumers = await deployment.consumers(2, "kurly")
    job = await deployment.submit("kurly", steps=4, seconds=0.2)
    owner = (await deployment.started(job)).workerId
    await deployment.reached(job, 1)
    victim = next(consumer for consumer in consumers if consumer.owner == owner)
    killed = time.time()
    kill(victim)
    beaten = await last_beat(deployment, "kurly", victim.owner)
    restarted = at(await deployment.started(job, attempt=2))

    assert restarted >= beaten + PACE.deadline
    assert restarted <= killed + PACE.deadline + 2 * PACE.reap + 1.0
    history = await deployment.ended(job)
    assert [tell(event) for event in history if event.step is None] == [
        "queued",
        "started 1",
        "superseded 1",
        "started 2",
        "completed 2",
    ]
    assert [event.reason for event in history if event.status is Status.SUPERSEDED] == ["lost"]
    assert (await deployment.record(job)).crashes == 1
    assert await deployment.leases("kurly") == []


async def test_a_dead_heart_is_replaced_and_nothing_is_taken_over(deployment: Deployment) -> None:
    first, second = await deployment.consumers(2, "research", pace=PATIENT, TAILRACE_CONCURRENCY="1")
    jobs = [await deployment.submit("research", steps=8, seconds=0.6) for _ in range(2)]  # one for each
    for job in jobs:
        await deployment.started(job)
    hearts = first.heart, second.heart
    first.kill_heart()

    async def replaced() -> bool:
        return first.heart not in (0, hearts[0])

    await eventually("another heart", replaced)
    for history in (await deployment.all_ended(jobs)).values():
        assert [tell(event) for event in history if event.step is None] == ["queued", "started 1", "completed 1"]
    assert second.heart == hearts[1]
    assert first.said("heart_restarted")


async def test_a_job_that_kills_its_workers_ends_failed_and_the_jobs_behind_it_complete(deployment: Deployment) -> None:
    consumers = await deployment.consumers(4, "kurly")
    deadly = await deployment.submit("kurly", steps=3, seconds=0.05, exit_at_step=2)
    behind = [await deployment.submit("kurly", steps=1, seconds=0.05, result=n) for n in range(3)]

    history = await deployment.ended(deadly)
    assert [tell(event) for event in history] == [
        "queued",
        *("started 1", "progress 1 step 1", "superseded 1"),
        *("started 2", "progress 2 step 1", "superseded 2"),
        *("started 3", "progress 3 step 1", "failed 3"),
    ]
    assert history[-1].error
    assert history[-1].error.type == "WorkerLost"
    assert sum(consumer.alive for consumer in consumers) == 1
    for number, (job, seen) in enumerate((await deployment.all_ended(behind)).items()):
        assert [tell(event) for event in seen] == ["queued", "started 1", "progress 1 step 1", "completed 1"]
        assert seen[-1].result == (number or None), job  # a null result is left out


async def test_a_job_that_killed_one_worker_completes_on_the_next(deployment: Deployment) -> None:
    await deployment.consumers(2, "kurly")
    job = await deployment.submit("kurly", steps=2, seconds=0.05, exit_at_step=2, exit_once=True, result="fine")
    history = await deployment.ended(job)
    assert [tell(event) for event in history] == [
        "queued",
        *("started 1", "progress 1 step 1", "superseded 1"),
        *("started 2", "progress 2 step 1", "progress 2 step 2", "completed 2"),
    ]
    assert history[-1].result == "fine"
