"""A store that dies or stands still says nothing about the workers: nothing is lost and nothing is taken over."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tailrace.ops.up.own_store import OwnStore
from tests.support.builders import tell
from tests.support.deployment import PACE, Deployment
from tests.support.eventually import eventually
from tests.support.faults import Link

AWAY_SECONDS = 3 * PACE.deadline
STEPS = 10  # a second of work


def killed(store: OwnStore) -> Callable[[], object]:
    store.kill()
    return store.start


def paused(store: OwnStore) -> Callable[[], object]:
    os.kill(store.pid, signal.SIGSTOP)
    return lambda: os.kill(store.pid, signal.SIGCONT)


async def test_jobs_outlive_a_store_that_is_away_for_three_deadlines(tmp_path: Path) -> None:
    """Two stores at one time: kill -9 of the one, with its file; a pause of the other."""
    await asyncio.gather(outlive(tmp_path / "a", killed), outlive(tmp_path / "b", paused))


async def outlive(folder: Path, fault: Callable[[OwnStore], Callable[[], object]]) -> None:
    with OwnStore(folder) as store:
        async with Deployment(store.url, folder) as deployment:
            await deployment.consumers(2, "research", "kurly")
            jobs = [
                *[await deployment.submit("research", steps=STEPS, seconds=0.1) for _ in range(12)],
                *[await deployment.submit("kurly", steps=STEPS, seconds=0.1) for _ in range(2)],
            ]
            for job in jobs[:-1]:  # the last one waits for the one before it
                await deployment.started(job)
            end = fault(store)
            await asyncio.sleep(AWAY_SECONDS)
            end()
            for history in (await deployment.all_ended(jobs)).values():
                assert [tell(event) for event in history] == [
                    "queued",
                    "started 1",
                    *(f"progress 1 step {step}" for step in range(1, STEPS + 1)),
                    "completed 1",
                ]
            for platform in ("research", "kurly"):
                assert await deployment.leases(platform) == []
                assert len(await deployment.beats(platform)) == 2


async def test_a_consumer_waits_for_its_store_and_serves_when_it_comes(tmp_path: Path) -> None:
    """One finds nobody at the address; to the other somebody answers and hangs up."""
    store = OwnStore(tmp_path / "store")
    async with Deployment(store.url, tmp_path) as deployment, Link(store.url) as link:
        consumers = [deployment.start_consumer("kurly"), deployment.start_consumer("kurly", url=link.url)]

        async def wait() -> bool:
            return all(consumer.said("store_away") for consumer in consumers)

        await eventually("both say that they wait", wait)
        with store:
            for consumer in consumers:
                await deployment.beating(consumer)
            job = await deployment.submit("kurly", steps=1, seconds=0.01)
            assert (await deployment.ended(job))[-1].status == "completed"
