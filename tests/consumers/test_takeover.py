"""kill -9: what becomes of the job, and when."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tailrace.streams.history.events import Event
from tailrace.streams.states import Status
from tests.life.asking import cancel
from tests.support.builders import Desk, tell
from tests.support.deployment import PACE, Deployment
from tests.support.eventually import eventually
from tests.support.processes import ConsumerProcess, Pace

PATIENT = Pace(deadline=60.0)  # time for a new heart to start on a busy machine


def at(event: Event) -> float:
    return datetime.fromisoformat(event.time).timestamp()


async def watch_beats(deployment: Deployment, platform: str, owner: str, beats: list[float]) -> None:
    """Note a time just before each beat of an owner, for as long as this runs."""
    counter, looked = "", time.time()
    while True:
        look = time.time()
        seen = (await deployment.beats(platform)).get(owner, "")
        if counter not in ("", seen):
            beats.append(looked)
        counter, looked = seen, look
        await asyncio.sleep(0.005)


async def test_a_killed_worker_is_replaced_after_its_deadline(deployment: Deployment) -> None:
    await both_are_replaced(deployment)


@pytest.mark.chaos
async def test_a_killed_worker_is_replaced_soon_after_its_deadline(deployment: Deployment) -> None:
    assert max(await both_are_replaced(deployment)) <= PACE.deadline + 2 * PACE.reap + 1.0


async def both_are_replaced(deployment: Deployment) -> tuple[float, float]:
    """On one platform the consumer alone is killed, on another its heart too: all the same to those who observe."""
    return await asyncio.gather(
        replaced(deployment, "kurly", ConsumerProcess.kill),
        replaced(deployment, "hwahae", ConsumerProcess.kill_group),
    )


async def replaced(deployment: Deployment, platform: str, kill: Callable[[ConsumerProcess], None]) -> float:
    """How many seconds after its worker was killed a job was started again."""
    consumers = await deployment.consumers(2, platform)
    job = await deployment.submit(platform, steps=4, seconds=0.2)
    owner = (await deployment.started(job)).workerId
    victim = next(consumer for consumer in consumers if consumer.owner == owner)
    beats: list[float] = []
    watch = asyncio.get_running_loop().create_task(watch_beats(deployment, platform, victim.owner, beats))

    async def beaten() -> bool:
        return bool(beats)

    await eventually("it beats while it has the job", beaten)
    killed = time.time()
    kill(victim)
    restarted = at(await deployment.started(job, attempt=2))
    watch.cancel()

    assert restarted >= beats[-1] + PACE.deadline
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
    assert await deployment.leases(platform) == []
    return restarted - killed


async def test_a_dead_heart_is_replaced_and_nothing_is_taken_over(deployment: Deployment) -> None:
    first, second = await deployment.consumers(2, "research", pace=PATIENT, TAILRACE_CONCURRENCY="1")
    jobs = [await deployment.submit("research", steps=1, seconds=600) for _ in range(2)]  # one for each
    for job in jobs:
        await deployment.started(job)
    hearts = first.heart, second.heart
    first.kill_heart()

    async def replaced() -> bool:
        return first.heart not in (0, hearts[0])

    await eventually("another heart", replaced)
    counter = (await deployment.beats("research"))[first.owner]

    async def beats() -> bool:
        return (await deployment.beats("research"))[first.owner] != counter

    await eventually("the new heart beats", beats)
    for job in jobs:  # and tells its consumer what it hears
        assert await cancel(deployment, job) == "cancelling"
    for history in (await deployment.all_ended(jobs)).values():
        assert [tell(event) for event in history] == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    assert second.heart == hearts[1]
    assert first.said("heart_restarted")


@pytest.mark.chaos
async def test_a_job_that_kills_its_workers_ends_failed_and_the_jobs_behind_it_complete(deployment: Deployment) -> None:
    consumers = await deployment.consumers(4, "kurly")
    deadly = await deployment.submit("kurly", steps=3, seconds=0.05, exit_at_step=2)
    behind = [await deployment.submit("kurly", steps=1, seconds=0.05) for _ in range(3)]

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
    for history in (await deployment.all_ended(behind)).values():
        assert [tell(event) for event in history] == ["queued", "started 1", "progress 1 step 1", "completed 1"]


async def test_a_fresh_killer_does_not_end_an_innocent_job_on_its_last_chance(deployment: Deployment) -> None:
    """It was lost twice by accident; its last attempt runs alone in its process, although there are ten slots."""
    desk = Desk(deployment.store, "research")
    innocent = await deployment.submit("research", steps=10, seconds=0.1)
    for attempt in (1, 2):
        consumer = await deployment.consumer("research")
        await deployment.started(innocent, attempt)
        consumer.kill_group()
    await desk.transitions.pause(desk.keys, "test")
    await deployment.consumer("research")

    async def lost_twice() -> bool:
        return (await deployment.record(innocent)).crashes == 2

    await eventually("both losses are counted", lost_twice)
    killer = await deployment.submit("research", steps=3, seconds=0.05, exit_at_step=1)
    await desk.transitions.resume(desk.keys)
    history = await deployment.ended(innocent)
    assert tell(history[-1]) == "completed 3"
    assert at(await deployment.started(killer)) >= at(history[-1])
