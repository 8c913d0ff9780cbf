"""Clusters and sentinels under load: slots move, primaries are replaced and killed; a ledger counts what is left."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import JobNotFound, StoreError
from tailrace.streams.history.events import Event
from tests.support.checker import false_takeovers, overlaps, takeovers, unclean
from tests.support.clusters import SlotMove, primaries
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled
from tests.support.sentinels import Sentinels

SHOPS = ("kurly", "ably", "oliveyoung")  # one at a time
PLATFORMS = (*SHOPS, "research", "plan-generation", "material-processing")
PAUSE_SECONDS = 1.0  # between faults

Fault = Callable[[], Awaitable[None]]

pytestmark = [pytest.mark.chaos, pytest.mark.alone, pytest.mark.timeout(900)]


class Load:
    """Jobs on every platform until it is stopped. A submission that failed does not count, even if it was accepted."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.stopped = False

    async def run(self, platform: str) -> None:
        while not self.stopped:
            try:
                await self.deployment.submit(platform, steps=2, seconds=0.05)
            except StoreError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.15)


async def rage(deployment: Deployment, faults: dict[str, Fault], count: int, dice: Random) -> Counter[str]:
    """Some faults under load; how many there were of each."""
    done: Counter[str] = Counter()
    load = Load(deployment)
    loads = [asyncio.create_task(load.run(platform)) for platform in PLATFORMS]
    for _ in range(count):
        name = dice.choice(sorted(faults))
        await faults[name]()
        done[name] += 1
        await asyncio.sleep(PAUSE_SECONDS)
    load.stopped = True
    await asyncio.gather(*loads)
    return done


async def reckon(deployment: Deployment) -> tuple[dict[str, list[Event]], int]:
    """The histories of all jobs that are there, and how many accepted ones a failover has lost."""
    histories, lost = {}, 0
    for job in deployment.accepted:
        try:
            histories[job] = await deployment.ended(job, seconds=60.0)
        except JobNotFound:
            lost += 1
    return histories, lost


def check(histories: dict[str, list[Event]]) -> None:
    assert unclean(histories) == []
    assert false_takeovers(histories, {}) == []
    for shop in SHOPS:
        assert overlaps({job: events for job, events in histories.items() if job.startswith(f"{shop}.")}) == []


async def test_a_cluster_whose_slots_move_and_whose_primaries_change_loses_no_history(
    valkey: OwnStore, tmp_path: Path, dice: Random, tell: Callable[[str], None]
) -> None:
    with OwnCluster(tmp_path / "cluster", 3, replicas=1, server=valkey.server) as cluster:
        async with Deployment(cluster.url, tmp_path) as deployment:
            await asyncio.gather(deployment.gateway(), deployment.consumers(2, *PLATFORMS))

            async def move_slot() -> None:
                move = SlotMove(cluster, deployment.store.keys(dice.choice(PLATFORMS))["leases"])
                await asyncio.to_thread(move.begin)
                await asyncio.to_thread(move.end)

            async def whole() -> bool:
                facts = [await asyncio.to_thread(cluster.fact, node, "cluster_slots_ok") for node in cluster.nodes]
                return facts == ["16384"] * len(cluster.nodes) and len(await asyncio.to_thread(primaries, cluster)) == 3

            async def fail_over() -> None:
                replica = dice.choice([node for node in cluster.nodes if "slave" in cluster.line_of(node)[2]])
                await asyncio.to_thread(cluster.ask, replica, "CLUSTER", "FAILOVER")

                async def promoted() -> bool:
                    return "master" in cluster.line_of(replica)[2]

                await eventually("the replica is the primary", promoted)

            async def kill_primary() -> None:
                primary = dice.choice(primaries(cluster))
                alive = [node for node in cluster.nodes if node is not primary]
                await asyncio.to_thread(primary.kill)

                async def replaced() -> bool:
                    return sum("master" in cluster.line_of(node)[2] for node in alive) == 3

                await eventually("a replica has taken over", replaced)
                await asyncio.to_thread(primary.start)
                await eventually("the cluster is whole", whole)

            faults: dict[str, Fault] = {"move": move_slot, "failover": fail_over, "kill": kill_primary}
            done = await rage(deployment, faults, scaled(30), dice)
            histories, lost = await reckon(deployment)
            tell(f"cluster: {dict(done)}, {len(histories)} jobs, {lost} lost, {len(takeovers(histories))} takeovers")
            check(histories)
            assert lost <= 10 * done["kill"], "no more than a replica had not received"


async def test_failovers_of_sentinels_lose_no_history(
    valkey: OwnStore, tmp_path: Path, dice: Random, tell: Callable[[str], None]
) -> None:
    with Sentinels(tmp_path / "sentinels", server=valkey.server) as sentinels:
        await sentinels.ready()
        async with Deployment(sentinels.url, tmp_path) as deployment:
            await asyncio.gather(deployment.gateway(), deployment.consumers(2, *PLATFORMS))

            async def fail_over() -> None:
                await sentinels.ready()
                await sentinels.fail_over()

            done = await rage(deployment, {"failover": fail_over}, scaled(10), dice)
            histories, lost = await reckon(deployment)
            tell(f"sentinels: {dict(done)}, {len(histories)} jobs, {lost} lost, {len(takeovers(histories))} takeovers")
            check(histories)
