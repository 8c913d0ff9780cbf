"""A job that may start does not wait beside an idle worker, whichever worker knew of it and is gone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.life.asking import PLATFORM, at, rules
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import ConsumerProcess, Pace

BRISK = Pace(deadline=6.0, beat=1.0, reap=0.5)
RATE_SECONDS = 4.0
SOON_SECONDS = 4.0  # I17 says 2 on an idle machine; an idle worker that is not called looks every 5 seconds by itself


@pytest.mark.parametrize("how", [ConsumerProcess.kill_group, ConsumerProcess.interrupt], ids=["killed", "drained"])
@pytest.mark.parametrize(
    "soon", [pytest.param(60.0, id="at all"), pytest.param(SOON_SECONDS, id="soon", marks=pytest.mark.chaos)]
)
async def test_a_job_starts_when_the_rate_opens_although_the_worker_that_knew_when_is_gone(
    deployment: Deployment, tmp_path: Path, how: Callable[[ConsumerProcess], None], soon: float
) -> None:
    config = rules(tmp_path, max_running=1, rate=1, rate_seconds=RATE_SECONDS)
    workers = await deployment.consumers(2, PLATFORM, pace=BRISK, TAILRACE_CONFIG=config)
    first = await deployment.submit(PLATFORM, steps=1, seconds=0.5)
    started = await deployment.started(first)
    second = await deployment.submit(PLATFORM, steps=1, seconds=0)
    await deployment.ended(first)

    async def rate_is_closed() -> bool:
        return b"timekeeper" in await deployment.store.command("HKEYS", deployment.store.keys(PLATFORM)["control"])

    await eventually("its claim for the next job has found the rate closed", rate_is_closed)
    gone = next(worker for worker in workers if worker.owner == started.workerId)
    how(gone)
    begun = await deployment.started(second)
    assert begun.workerId not in (None, gone.owner)
    assert at(begun.time) - at(started.time) < RATE_SECONDS + soon
