"""Random faults, and one checker over every job that was accepted."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.keys import BANDS, PlatformKeys
from tests.chaos.storm import CONFIG, FLEETING, METERED, OVERALL, PER_KEY, PLATFORMS, RATE, RATE_SECONDS, SHOPS, Storm
from tests.support.checker import (
    Histories,
    Span,
    false_takeovers,
    full,
    jumped_the_line,
    longest_idle_wait,
    overlaps,
    rate_closed,
    takeovers,
    too_fast,
    too_many,
    unclean,
)
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled

IDLE_SECONDS = 2.0  # promised: a job that may start does so, while a consumer of its platform has a free slot
PATIENCE_SECONDS = 20.0  # the same on a machine that may be slow: a job that waits until another one wakes it is found


@pytest.mark.alone
@pytest.mark.parametrize(
    ("faults", "idle_seconds"),
    [
        pytest.param(10, PATIENCE_SECONDS, id="10"),
        pytest.param(scaled(100), IDLE_SECONDS, marks=[pytest.mark.chaos, pytest.mark.timeout(600)], id="many"),
    ],
)
async def test_no_job_is_lost_repeated_or_wrongly_taken_over_in_a_storm(
    tmp_path: Path, dice: Random, tell: Callable[[str], None], faults: int, idle_seconds: float
) -> None:
    with OwnStore(tmp_path / "store") as store:
        async with Deployment(store.url, tmp_path, CONFIG) as deployment:
            storm = Storm(deployment, store, dice)
            async with storm.ready():
                await storm.rage(faults)
                histories = await deployment.all_ended(deployment.accepted, seconds=60.0)
                idle = longest_idle_waits(histories, storm.out_of_work())
                told = ", ".join(f"{count} {name}" for name, count in sorted(storm.faults.items()))
                tell(
                    f"storm: {faults} faults ({told.replace('_', ' ')}), {len(histories)} jobs and {storm.fleeting} "
                    f"fleeting ones, {len(takeovers(histories))} takeovers; longest wait beside a free slot: {idle}"
                )
                assert unclean(histories) == []
                assert false_takeovers(histories, storm.harmed) == []
                assert {history[-1].status for history in histories.values()} == {"completed"}
                assert all(seconds < idle_seconds for seconds, _ in idle.values())
                for shop in SHOPS:
                    assert overlaps(of(shop, histories)) == []
                    assert jumped_the_line(of(shop, histories)) == []
                metered = of(METERED, histories)
                assert too_many(metered, OVERALL) == []
                assert too_fast(metered, RATE, RATE_SECONDS) == []
                for label, jobs in storm.keyed.items():
                    same = {job: histories[job] for job in jobs}
                    assert too_many(same, PER_KEY if label.startswith("k") else 1) == []
                for job, client in storm.clients.items():
                    assert await asyncio.wait_for(client, 30.0) == histories[job]
                await eventually("nothing is left behind", lambda: nothing_is_left(deployment))


def of(platform: str, histories: Histories) -> Histories:
    return {job: history for job, history in histories.items() if job.startswith(f"{platform}.")}


def longest_idle_waits(histories: Histories, out_of_work: Sequence[Span]) -> dict[str, tuple[float, str]]:
    """For each platform whose slots can be counted from its histories."""
    found = {}
    for platform, slots in (*((shop, 1) for shop in SHOPS), (METERED, OVERALL)):
        ours = of(platform, histories)
        closed = [*full(ours, slots), *out_of_work]
        if platform == METERED:
            closed += rate_closed(ours, RATE, RATE_SECONDS)
        found[platform] = longest_idle_wait(ours, closed)
    return found


async def nothing_is_left(deployment: Deployment) -> bool:
    """No lease, no entry, no job at the front, and of fleeting jobs no key at all."""
    left = 0
    for keys in map(PlatformKeys, PLATFORMS):
        left += len(await deployment.leases(keys.platform)) + sum(
            [await deployment.store.command("ZCARD", keys.front(band)) for band in BANDS]
        )
        left += sum([await deployment.store.command("XLEN", keys.jobs(band)) for band in BANDS])
    forgotten = not await deployment.store.command("KEYS", PlatformKeys(FLEETING).record("*"))
    return not left and forgotten
