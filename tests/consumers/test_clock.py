"""The store's clock jumps: silence is counted by whoever listens, so nobody is robbed and nobody is left for dead."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from ops.store import OwnStore, bundled_server
from tests.support.builders import tell
from tests.support.deployment import Deployment

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
