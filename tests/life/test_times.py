"""Time: jobs start when they are due and not before, expire when no consumer starts them, and do not take too long."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.history.events import Event
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.states import Status
from tailrace.streams.transitions import Transitions
from tests.life.asking import NO_PAUSE, STEERED, ask, at, happened, when
from tests.support.builders import tell as words
from tests.support.deployment import Deployment
from tests.support.processes import ConsumerProcess

MEDIAN_SECONDS = 0.25  # 0.05 is the promise for an idle machine; this one has much else to do
BUSY_SECONDS = 2.0


def iso(seconds: float) -> str:
    """A point in time, this many seconds from now."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="milliseconds")


def error_of(history: list[Event]) -> tuple[str, str | None]:
    assert history[-1].error is not None
    return history[-1].error.type, history[-1].reason


async def test_delayed_jobs_start_when_they_are_due_with_nobody_enqueuing(
    standing: Deployment, tell: Callable[[str], None]
) -> None:
    assert (await delayed_jobs_are_late(standing, tell))[0] >= 0


@pytest.mark.chaos
async def test_delayed_jobs_start_soon_after_they_are_due(standing: Deployment, tell: Callable[[str], None]) -> None:
    assert median(await delayed_jobs_are_late(standing, tell)) < MEDIAN_SECONDS


async def delayed_jobs_are_late(standing: Deployment, tell: Callable[[str], None]) -> list[float]:
    """By how many seconds each of some jobs was started after it was due."""
    jobs = [
        *[await ask(standing, "research", delay_seconds=0.6 + number / 20) for number in range(15)],
        *[await ask(standing, "research", run_at=iso(1.4 + number / 20)) for number in range(15)],
    ]
    histories = await standing.all_ended(jobs)
    late = sorted(when(history, Status.STARTED)[0] - at(history[1].until) for history in histories.values())
    tell(f"30 delayed jobs started {1000 * median(late):.0f} ms late at the median, {1000 * late[-1]:.0f} ms at most")
    assert {tuple(map(words, history)) for history in histories.values()} == {
        ("queued", "delayed", "started 1", "progress 1 step 1", "completed 1")
    }
    return late


def microsecond(history: list[Event]) -> int:
    """When a job was started, as exactly as the id of that event tells."""
    (started,) = [event for event in history if event.status is Status.STARTED]
    return int(started.id.partition("-")[2][:16])


async def test_a_job_that_falls_due_while_its_only_worker_is_busy_starts_right_after(standing: Deployment) -> None:
    busy = await ask(standing, "kurly", args={"seconds": 1.0})
    await standing.started(busy)
    due = await ask(standing, "kurly", delay_seconds=0.3)
    newer = await ask(standing, "kurly")
    histories = await standing.all_ended([busy, due, newer])
    assert at(histories[busy][-1].time) <= when(histories[due], Status.STARTED)[0]
    assert microsecond(histories[due]) < microsecond(histories[newer])  # it was accepted before


async def test_a_delay_outlives_the_worker_and_the_store(tmp_path: Path) -> None:
    with OwnStore(tmp_path / "data") as store:
        async with Deployment(store.url, tmp_path) as deployment:
            first = await deployment.consumer("research")
            job = await ask(deployment, "research", delay_seconds=2.0)
            retried = await ask(deployment, "research", args={"fail_times": 1}, backoff_seconds=2.0, jitter=0.0)
            await happened(deployment, retried, Status.RETRYING)
            first.kill_group()
            store.kill()
            store.start()
            await deployment.consumer("research")
            histories = await deployment.all_ended([job, retried])
    assert when(histories[job], Status.STARTED)[0] >= at(histories[job][1].until)
    assert when(histories[retried], Status.STARTED)[1] >= at(histories[retried][2].retryAt)
    assert [words(event) for event in histories[retried]][2:] == [
        *("retrying 1", "started 2", "progress 2 step 1", "completed 2"),
    ]


async def test_a_job_that_is_not_started_in_time_ends_failed_with_nobody_claiming(
    standing: Deployment, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    busy = await ask(standing, "ably", "until-told", args={"file": str(told)}, expires_at=iso(BUSY_SECONDS))
    await standing.started(busy)
    expiry = asyncio.create_task(asyncio.sleep(BUSY_SECONDS))
    await Transitions(standing.store).pause(PlatformKeys("plan-generation"), "ops")
    behind = await ask(standing, "ably", expires_at=iso(0.3))
    delayed = await ask(standing, "ably", delay_seconds=60.0, expires_at=iso(0.3))
    paused = await ask(standing, "plan-generation", expires_at=iso(0.3))
    histories = await standing.all_ended([behind, delayed, paused])
    await expiry
    told.touch()
    histories[busy] = await standing.ended(busy)
    for job in (behind, delayed, paused):
        assert error_of(histories[job]) == ("Expired", "expired")
        assert when(histories[job], Status.STARTED) == []
    assert words(histories[busy][-1]) == "completed 1"  # it had started in time, and may take its time


async def test_an_attempt_that_takes_too_long_is_cancelled_and_tried_again(standing: Deployment) -> None:
    job = await ask(standing, "research", args={"seconds": 60}, timeout_seconds=0.3, attempts=2, **NO_PAUSE)
    history = await standing.ended(job)
    assert [words(event) for event in history] == ["queued", "started 1", "retrying 1", "started 2", "failed 2"]
    for event in (history[2], history[4]):
        assert event.error is not None
        assert (event.error.type, event.reason) == ("TimedOut", "timeout")
        assert "0.3 s" in event.error.message
    assert (await standing.record(job)).failures == 2


async def test_a_job_may_not_take_longer_than_its_lifetime_over_all_attempts(standing: Deployment) -> None:
    limits = {"timeout_seconds": 0.8, "lifetime_seconds": 2.0, "attempts": 50}
    job = await ask(standing, "research", args={"seconds": 60}, **limits, **NO_PAUSE)
    whole = await ask(standing, "research", args={"seconds": 60}, lifetime_seconds=0.5, **NO_PAUSE)
    history = await standing.ended(whole)
    assert [words(event) for event in history] == ["queued", "started 1", "failed 1"]  # nothing is left for another
    assert history[-1].error is not None
    assert "in all" in history[-1].error.message
    history = await standing.ended(job)
    assert error_of(history) == ("TimedOut", "timeout")
    starts = when(history, Status.STARTED)
    assert len(starts) in (2, 3), "a busy machine may have no time for the third"
    assert all(later - earlier >= 0.8 for earlier, later in pairwise(starts)), "each of them had its own time"


async def test_a_handler_that_does_not_stop_is_left_to_itself_and_mute(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly", TAILRACE_HANDLERS=STEERED, TAILRACE_OBEY_SECONDS="0.5")
    job = await ask(deployment, "kurly", "never-stops", timeout_seconds=0.3, attempts=1)
    behind = await ask(deployment, "kurly")
    history = await deployment.ended(job)
    assert [words(event) for event in history] == ["queued", "started 1", "progress 1 step 1", "failed 1"]
    assert error_of(history) == ("TimedOut", "timeout")
    await deployment.ended(behind)  # its place was freed
    assert consumer.alive
    assert consumer.said("handler_does_not_stop")
    consumer.interrupt()  # and a worker with such a handler still leaves when it is asked to
    assert await consumer.ended() == 0


async def test_a_worker_whose_loop_is_blocked_past_the_time_is_ended_and_its_other_jobs_go_on(
    deployment: Deployment, tmp_path: Path
) -> None:
    """Three ways to hold the interpreter, and a job that blocks only its first worker, each in a worker of its own."""
    cases = {"research": "sleep", "plan-generation": "spin", "material-processing": "regex"}
    start = partial(deployment.consumer, TAILRACE_HANDLERS=STEERED, TAILRACE_OBEY_SECONDS="0.5")
    starting = (start(*lane) for lane in (*zip(cases, strict=True), ("kurly", "ably")))
    *consumers, shop = await asyncio.gather(*starting)
    told = tmp_path / "told"
    platforms = (*(p for p in cases for _ in range(2)), "ably")
    others = [await ask(deployment, p, "until-told", args={"file": str(told)}) for p in platforms]
    for job in others:
        await deployment.started(job)
    late = {
        p: await ask(deployment, p, args={"seconds": 60, "block": how}, timeout_seconds=0.3, attempts=1)
        for p, how in cases.items()
    }
    again = await ask(deployment, "kurly", "blocks-once", timeout_seconds=0.3, **NO_PAUSE)
    for job in (*late.values(), again):
        await deployment.started(job)
    successor = asyncio.get_running_loop().create_task(start(*cases, "kurly", "ably"))
    for consumer in (*consumers, shop):
        assert await consumer.ended() == -9
        assert ended_by_its_heart(consumer), consumer.log.read_text()
    await successor
    told.touch()
    for job in late.values():
        history = await deployment.ended(job)
        assert [words(event) for event in history] == ["queued", "started 1", "failed 1"]
        assert error_of(history) == ("TimedOut", "timeout")
    history = await deployment.ended(again)
    assert [words(event) for event in history] == ["queued", "started 1", "retrying 1", "started 2", "completed 2"]
    for job in others:
        history = await deployment.ended(job)
        assert [event.reason for event in history if event.status is Status.SUPERSEDED] == ["released"]
        assert history[-1].status is Status.COMPLETED
        assert (await deployment.record(job)).crashes == 0


def ended_by_its_heart(consumer: ConsumerProcess) -> bool:
    return bool(consumer.said("attempt_overdue") and consumer.said("consumer_ended"))
