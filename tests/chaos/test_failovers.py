"""Clusters and sentinels under load: slots move, primaries are replaced and killed; a ledger counts what is left.

Each storm has 20 platforms, 4 consumers, 2 gateways, and clients that cut their connections.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx2
import pytest

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import JobNotFound, StoreError
from tailrace.streams.history.events import Event
from tests.support.builders import tell as told
from tests.support.checker import false_takeovers, overlaps, takeovers, unclean
from tests.support.clusters import SlotMove, has_replica, primaries
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.follower import Follower
from tests.support.long_runs import scaled
from tests.support.sentinels import Sentinels

SHOPS = ("kurly", "ably", "oliveyoung")  # one at a time
PLATFORMS = (*SHOPS, "research", "plan-generation", "material-processing", *(f"p{n}" for n in range(14)))
CONSUMERS, GATEWAYS = 4, 2
PAUSE_SECONDS = 1.0  # between faults, and between two jobs of a platform
WATCHED = 0.1  # of all jobs
BACK_SECONDS = 5.0  # every platform moves again this soon after its node is back, with its replica
LOST_AT_ONCE = 10  # jobs that a replica may not have received when its primary is killed

Fault = Callable[[], Awaitable[None]]

pytestmark = [pytest.mark.chaos, pytest.mark.alone, pytest.mark.timeout(3600)]


class CuttingClient(Follower):
    """Follows a job, and cuts its connection again and again."""

    def __init__(self, http: httpx2.AsyncClient, gateway_url: str, job_id: str, dice: Random) -> None:
        super().__init__(http, gateway_url, job_id)
        self._dice = dice

    async def _read(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._dice.uniform(0.05, 0.6)):
                await super()._read()


class Storm:
    """Jobs on every platform while faults come; a submission that failed does not count, even if it was accepted."""

    def __init__(self, deployment: Deployment, dice: Random) -> None:
        self.deployment = deployment
        self.dice = dice
        self.clients: dict[str, asyncio.Task[list[Event]]] = {}
        self.slowest = 0.0  # seconds until every platform moved again
        self._over = False

    async def begin(self) -> None:
        gateways = (self.deployment.gateway() for _ in range(GATEWAYS))
        await asyncio.gather(*gateways, self.deployment.consumers(CONSUMERS, *PLATFORMS))

    async def rage(self, faults: Mapping[str, tuple[Fault, int]]) -> Counter[str]:
        """Each fault this many times, in any order; how many there were of each."""
        order = [name for name, (_, count) in sorted(faults.items()) for _ in range(count)]
        self.dice.shuffle(order)
        loads = [asyncio.create_task(self._load(platform)) for platform in PLATFORMS]
        try:
            for name in order:
                await faults[name][0]()
                back = time.monotonic()
                await asyncio.gather(*map(self._moves, PLATFORMS))
                self.slowest = max(self.slowest, time.monotonic() - back)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._over = True
            await asyncio.gather(*loads)
        return Counter(order)

    async def _load(self, platform: str) -> None:
        while not self._over:
            job = await self._submit(platform, steps=2, seconds=0.05)
            if job and self.dice.random() < WATCHED:
                gateway = self.dice.choice(self.deployment.gateways)
                client = CuttingClient(self.deployment.http, gateway.url, job, self.dice)
                self.clients[job] = asyncio.create_task(client.run())
            await asyncio.sleep(PAUSE_SECONDS)

    async def _submit(self, platform: str, *, steps: int, seconds: float) -> str | None:
        try:
            return await self.deployment.submit(platform, steps=steps, seconds=seconds)
        except StoreError:
            return None

    async def _moves(self, platform: str) -> None:
        """Wait until a job of the platform that is submitted now has started."""
        job = None
        while job is None:
            job = await self._submit(platform, steps=1, seconds=0.0)

        async def started() -> bool:
            with suppress(StoreError):
                return len(await self.deployment.raw_log(job)) > 0
            return False

        await eventually(f"{platform} moves again", started, seconds=60.0)

    async def reckon(self) -> tuple[dict[str, list[Event]], int]:
        """The histories of all jobs that are there, and how many accepted ones a failover has lost."""
        histories, lost = {}, 0
        for job in self.deployment.accepted:
            try:
                histories[job] = await self.deployment.ended(job, seconds=60.0)
            except JobNotFound:
                lost += 1
        return histories, lost

    async def seen(self, histories: dict[str, list[Event]]) -> dict[str, list[Event]]:
        """What clients saw of the jobs that are there."""
        for job in self.clients.keys() - histories.keys():
            self.clients.pop(job).cancel()
        return {job: await asyncio.wait_for(client, 60.0) for job, client in self.clients.items()}

    def facts(self, done: Counter[str], histories: dict[str, list[Event]], lost: int) -> str:
        return (
            f"{dict(done)}: {len(histories)} jobs, {len(self.clients)} of them watched, {lost} lost, "
            f"{len(takeovers(histories))} takeovers, all platforms moved again within {self.slowest:.1f} s"
        )

    async def check(self, histories: dict[str, list[Event]], *, replicated: bool) -> None:
        assert unclean(histories) == []
        seen = await self.seen(histories)
        assert unclean(seen) == []
        if replicated:  # else a client may have seen what was lost
            for job, events in seen.items():
                assert [told(event) for event in events] == [told(event) for event in histories[job]], job
        assert false_takeovers(histories, {}) == []
        for shop in SHOPS:
            assert overlaps({job: events for job, events in histories.items() if job.startswith(f"{shop}.")}) == []
        assert self.slowest < BACK_SECONDS


def config(durability: str) -> str:
    """Ended jobs stay: one that retention removed would count as lost."""
    rules = f'durability = "{durability}"\nkeep_completed = 0\n'
    return "".join(f"[platforms.{name}]\n{rules}" for name in PLATFORMS)


@pytest.mark.parametrize("durability", ["replicated", "primary"])
async def test_a_cluster_whose_slots_move_and_whose_primaries_change_loses_no_history(
    valkey: OwnStore, tmp_path: Path, dice: Random, tell: Callable[[str], None], durability: str
) -> None:
    with OwnCluster(tmp_path / "cluster", 3, replicas=1, server=valkey.server) as cluster:
        async with Deployment(cluster.url, tmp_path, config(durability)) as deployment:
            storm = Storm(deployment, dice)
            await storm.begin()

            async def move_slot() -> None:
                move = SlotMove(cluster, deployment.store.keys(dice.choice(PLATFORMS))["leases"])
                await asyncio.to_thread(move.begin)
                await asyncio.to_thread(move.end)

            def is_whole() -> bool:
                facts = [cluster.fact(node, "cluster_slots_ok") for node in cluster.nodes]
                leading = primaries(cluster)
                followed = [has_replica(node, cluster.password) for node in leading]
                return facts == ["16384"] * len(cluster.nodes) and followed == [True] * 3

            async def whole() -> bool:
                return await asyncio.to_thread(is_whole)

            async def fail_over() -> None:
                replica = dice.choice([node for node in cluster.nodes if "slave" in cluster.line_of(node)[2]])
                await asyncio.to_thread(cluster.ask, replica, "CLUSTER", "FAILOVER")

                async def promoted() -> bool:
                    return "master" in cluster.line_of(replica)[2]

                await eventually("the replica is the primary", promoted)
                await eventually("the cluster is whole", whole, seconds=60.0)

            async def kill_primary() -> None:
                primary = dice.choice(primaries(cluster))
                alive = [node for node in cluster.nodes if node is not primary]
                await asyncio.to_thread(primary.kill)

                async def replaced() -> bool:
                    return sum("master" in cluster.line_of(node)[2] for node in alive) == 3

                await eventually("a replica has taken over", replaced)
                await asyncio.to_thread(primary.start)
                await eventually("the cluster is whole", whole, seconds=60.0)

            each = scaled(10 if durability == "replicated" else 3)
            faults = {"move": (move_slot, each), "failover": (fail_over, each), "kill": (kill_primary, each)}
            done = await storm.rage(faults)
            histories, lost = await storm.reckon()
            tell(f"cluster, {durability}: {storm.facts(done, histories, lost)}")
            assert lost <= (0 if durability == "replicated" else LOST_AT_ONCE * done["kill"])
            await storm.check(histories, replicated=durability == "replicated")


@pytest.mark.parametrize("durability", ["replicated", "primary"])
async def test_failovers_of_sentinels_lose_no_history(
    valkey: OwnStore, tmp_path: Path, dice: Random, tell: Callable[[str], None], durability: str
) -> None:
    with Sentinels(tmp_path / "sentinels", server=valkey.server) as sentinels:
        await sentinels.ready()
        async with Deployment(sentinels.url, tmp_path, config(durability)) as deployment:
            storm = Storm(deployment, dice)
            await storm.begin()

            async def followed() -> bool:
                return await asyncio.to_thread(lambda: has_replica(sentinels.primary()))

            async def fail_over() -> None:
                await sentinels.ready()
                await sentinels.fail_over()
                await eventually("the new primary has a replica", followed, seconds=60.0)

            done = await storm.rage({"failover": (fail_over, scaled(10 if durability == "replicated" else 3))})
            histories, lost = await storm.reckon()
            tell(f"sentinels, {durability}: {storm.facts(done, histories, lost)}")
            assert durability == "primary" or lost == 0
            await storm.check(histories, replicated=durability == "replicated")
