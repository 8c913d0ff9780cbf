"""One shop, several workers, and workers killed all the time: still one job after the other, in order."""

import asyncio
import time
from pathlib import Path
from random import Random

import pytest

from tailrace.producers.platforms import EXTRACT
from tailrace.streams.keys import PlatformKeys
from tests.support.checker import false_takeovers, jumped_the_line, overlaps, takeovers, unclean
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled
from tests.support.processes import UNHURRIED, ConsumerProcess

SHOP = "kurly"


@pytest.mark.parametrize(
    ("jobs", "kills"),
    [(20, 5), pytest.param(scaled(100), scaled(20), marks=[pytest.mark.chaos, pytest.mark.timeout(400)])],
)
async def test_the_jobs_of_a_shop_run_one_after_the_other_while_workers_are_killed(
    deployment: Deployment, dice: Random, tmp_path: Path, jobs: int, kills: int
) -> None:
    config = tmp_path / "tailrace.toml"
    config.write_text(f"[platforms.{SHOP}]\nmax_crashes = 50\n")  # a job that is unlucky often is still no deadly job
    starting = deployment.consumers(3, SHOP, TAILRACE_CONFIG=str(config))
    _, workers = await asyncio.gather(deployment.gateway(), starting)
    ids = [await deployment.submit(SHOP, steps=3, seconds=0.05) for _ in range(jobs)]
    killed = {}
    for number in range(1, kills + 1):
        await some_ended(deployment, jobs * number // (kills + 2))
        await asyncio.sleep(dice.uniform(0, 0.3))
        victim = await choose(deployment, dice, workers)
        killed[victim.owner] = time.time()
        dice.choice((ConsumerProcess.kill, ConsumerProcess.kill_group))(victim)
        workers[workers.index(victim)] = await deployment.consumer(SHOP, TAILRACE_CONFIG=str(config))

    histories = await deployment.all_ended(ids)
    assert unclean(histories) == []
    assert overlaps(histories) == []
    assert jumped_the_line(histories) == []
    assert false_takeovers(histories, killed) == []
    assert takeovers(histories), "at least one kill hit a worker with a job"
    assert {history[-1].status for history in histories.values()} == {"completed"}


async def test_the_extract_group_runs_one_at_a_time_over_all_processes(deployment: Deployment) -> None:
    """Two processes serve all four platforms of the lane; each platform has a line, and none of them starves."""
    _, workers = await asyncio.gather(deployment.gateway(), deployment.consumers(2, "extract", pace=UNHURRIED))
    ids = [await deployment.submit(platform, steps=1, seconds=0.05) for platform in EXTRACT for _ in range(5)]
    histories = await deployment.all_ended(ids)
    assert overlaps(histories) == []
    assert {history[-1].status for history in histories.values()} == {"completed"}
    last_start = {ids[number]: number for number in (4, 9, 14, 19)}  # the last job of each platform
    order = sorted(ids, key=lambda job: next(event.time for event in histories[job] if event.status == "started"))
    assert order.index(min(last_start, key=order.index)) >= 8, (
        "they take turns: no platform is through before the others"
    )
    assert len({worker.owner for worker in workers}) == 2


async def some_ended(deployment: Deployment, count: int) -> None:
    async def look() -> bool:
        ended: int = await deployment.store.command("LLEN", PlatformKeys(SHOP)["ended_completed"])
        return ended >= count

    await eventually(f"{count} jobs have ended", look)


async def choose(deployment: Deployment, dice: Random, workers: list[ConsumerProcess]) -> ConsumerProcess:
    """Mostly the one that runs a job, else anyone."""
    at_work = {lease.owner for lease in await deployment.leases(SHOP)}
    busy = [worker for worker in workers if worker.owner in at_work]
    return dice.choice(busy if busy and dice.random() < 0.8 else workers)
