"""The store's clock jumps: silence is counted by whoever listens, and no wait lasts longer than its own length."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from tailrace.ops.up.own_store import OwnStore, bundled_server
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.schedules import Schedules
from tailrace.producers.submissions import Submission
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Options
from tailrace.streams.schedules import Schedule
from tailrace.streams.transitions import Transitions
from tests.life.asking import STEERED
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

LIBRARIES = tuple(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class Clock:
    """The wall clock of one server, moved by writing into a file that it looks at whenever it asks for the time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.move(0)

    def move(self, hours: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{hours:+d}h\n")
        new.replace(self._file)


@pytest.fixture
def clocked(tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> Iterator[tuple[OwnStore, Clock]]:
    server = bundled_server()
    if not LIBRARIES or not server:
        leave_out("there is no faketime or no valkey server on this machine")
    clock = Clock(tmp_path / "clock")
    wrapper = tmp_path / "server"
    wrapper.write_text(
        "#!/bin/sh\n"
        f"export LD_PRELOAD={LIBRARIES[0]} FAKETIME_TIMESTAMP_FILE={tmp_path / 'clock'}\n"
        "export FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1\n"
        f'exec "{server}" "$@"\n'
    )
    os.chmod(wrapper, 0o700)
    with OwnStore(tmp_path / "store", server=wrapper) as store:
        yield store, clock


@pytest.mark.chaos
async def test_a_clock_that_jumps_robs_nobody_and_hides_no_death(
    clocked: tuple[OwnStore, Clock], tmp_path: Path
) -> None:
    store, clock = clocked
    async with Deployment(store.url, tmp_path) as deployment:
        workers = await deployment.consumers(2, "kurly")
        job = await deployment.submit("kurly", steps=6, seconds=0.3)
        for hours, step in ((1, 1), (-1, 3)):
            await deployment.reached(job, step)
            clock.move(hours)
        history = await deployment.ended(job)
        times = [datetime.fromisoformat(event.time) for event in history]
        assert max(times) - min(times) > timedelta(minutes=50), "the clock did jump"
        assert [tell(event) for event in history] == [
            "queued",
            "started 1",
            *(f"progress 1 step {step}" for step in range(1, 7)),
            "completed 1",
        ]

        job = await deployment.submit("kurly", steps=3, seconds=0.1)
        owner = (await deployment.started(job)).workerId
        next(worker for worker in workers if worker.owner == owner).kill()
        clock.move(-2)
        assert (await deployment.started(job, attempt=2)).workerId != owner
        assert (await deployment.ended(job))[-1].status == "completed"


async def wait_until(what: str, deployment: Deployment, *jobs: str, status: str) -> None:
    async def seen() -> bool:
        return all([status in {event.status.value for event in await deployment.history(job)} for job in jobs])

    await eventually(what, seen)


@pytest.mark.chaos
@pytest.mark.parametrize("hours", [(1, 0), (0, -1)], ids=["ahead and corrected", "set back"])
async def test_a_clock_that_jumps_lets_nothing_wait_longer_than_its_own_length(
    clocked: tuple[OwnStore, Clock], tmp_path: Path, hours: tuple[int, int]
) -> None:
    store, clock = clocked
    before, after = hours
    clock.move(before)
    async with Deployment(store.url, tmp_path) as deployment:
        await deployment.consumer("kurly", "hwahae", TAILRACE_HANDLERS=STEERED)
        submit = deployment.producer.submit
        later = Submission("kurly", "drill", {"steps": 1, "seconds": 0}, options=Options(delay_seconds=4))
        waits = [
            await deployment.submit("kurly", steps=1, seconds=0, fail_times=1),
            (await submit(later)).id,
            await deployment.submit("hwahae", kind="left-alone", seconds=4),
        ]
        behind = await deployment.submit("hwahae", steps=1, seconds=0)
        await Schedules(Transitions(deployment.store), BUILT_IN).upsert(
            Schedule(name="each", platform="kurly", kind="drill", args={"steps": 1, "seconds": 0}, every_seconds=1)
        )
        await wait_until("the retry waits", deployment, waits[0], status="retrying")
        await wait_until("the platform is held", deployment, waits[2], status="delayed")
        clock.move(after)
        ticked = len(await deployment.store.command("KEYS", f"{PlatformKeys('kurly').record('each')}*"))
        begun = time.monotonic()
        for job in (*waits, behind):
            assert (await deployment.ended(job))[-1].status == "completed"
        assert time.monotonic() - begun < 20, "not an hour"

        async def ticks() -> bool:
            found = await deployment.store.command("KEYS", f"{PlatformKeys('kurly').record('each')}*")
            return len(found) > ticked

        await eventually("the schedule ticks", ticks)
