"""Random faults, and one checker over every job that was accepted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ops.store import OwnStore
from streams.keys import BANDS, PlatformKeys
from tests.chaos.storm import PLATFORMS, SHOPS, Storm
from tests.support.checker import false_takeovers, jumped_the_line, overlaps, takeovers, unclean
from tests.support.deployment import Deployment
from tests.support.eventually import eventually


@pytest.mark.alone
@pytest.mark.parametrize("faults", [10, pytest.param(100, marks=[pytest.mark.chaos, pytest.mark.timeout(600)])])
async def test_no_job_is_lost_repeated_or_wrongly_taken_over_in_a_storm(
    tmp_path: Path, dice: Random, tell: Callable[[str], None], faults: int
) -> None:
    with OwnStore(tmp_path / "store") as store:
        async with Deployment(store.url, tmp_path) as deployment:
            storm = Storm(deployment, store, dice)
            async with storm.ready():
                await storm.rage(faults)
                histories = await deployment.all_ended(deployment.accepted, seconds=60.0)
                told = ", ".join(f"{count} {name}" for name, count in sorted(storm.faults.items()))
                tell(
                    f"storm: {faults} faults ({told.replace('_', ' ')}), {len(histories)} jobs, "
                    f"{len(takeovers(histories))} takeovers"
                )
                assert unclean(histories) == []
                assert false_takeovers(histories, storm.harmed) == []
                assert {history[-1].status for history in histories.values()} == {"completed"}
                for shop in SHOPS:
                    of_shop = {job: history for job, history in histories.items() if job.startswith(f"{shop}.")}
                    assert overlaps(of_shop) == []
                    assert jumped_the_line(of_shop) == []
                for job, client in storm.clients.items():
                    assert await asyncio.wait_for(client, 30.0) == histories[job]
                await eventually("nothing is left behind", lambda: nothing_is_left(deployment))


async def nothing_is_left(deployment: Deployment) -> bool:
    """No lease, no entry, nobody at the front: each job has ended and left the line."""
    left = 0
    for keys in map(PlatformKeys, PLATFORMS):
        left += len(await deployment.leases(keys.platform)) + await deployment.store.command("ZCARD", keys["front"])
        left += sum([await deployment.store.command("XLEN", keys.jobs(band)) for band in BANDS])
    return not left
