"""A failover behind the store's name: the old primary lives on as a replica, new connections reach another server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import NoStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import ANSWER_SECONDS, Store
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.node import Node
from tailrace.streams.store.wire import Door, Wire
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.faults import Link
from tests.support.ports import free_port

FEED = PlatformKeys("kurly")["events"]


class Pair:
    """Two servers behind one name: the second copies the first until it takes its place."""

    def __init__(self, first: OwnStore, second: OwnStore, name: Link) -> None:
        self.first, self.second, self.name = first, second, name

    async def copied(self) -> bool:
        async with direct(self.second) as store:
            return b"master_link_status:up" in await store.command("INFO", "replication")

    async def demote(self) -> None:
        """Make the second server the primary and the first one its replica; the name still leads to the first.

        The second has what was written before: WAIT is for the writes of its own connection, and those before them.
        """
        async with direct(self.first) as store:
            await store.commands([("SET", "mark", "1"), ("WAIT", 1, 0)])
        await ask(self.second, "REPLICAOF", "NO", "ONE")
        await ask(self.first, "REPLICAOF", "127.0.0.1", self.second.port)

    def lead_on(self) -> None:
        self.name.lead_to(self.second.url)


class AnyRole(Node):
    """A server whatever its role."""

    async def _open_to_primary(self) -> Wire:
        return await self.door.open(ANSWER_SECONDS)


@asynccontextmanager
async def direct(server: OwnStore) -> AsyncIterator[AnyRole]:
    node = AnyRole(server.url, Door(server.url, 2.0), ANSWER_SECONDS)
    yield node
    await node.aclose()


async def ask(server: OwnStore, *command: object) -> None:
    async with direct(server) as store:
        await store.command(*command)


@pytest.fixture
def servers_of_pair(server: OwnStore, tmp_path: Path) -> Iterator[tuple[OwnStore, OwnStore]]:
    at_once = ("--repl-diskless-sync-delay", "0")
    first, second = (
        OwnStore(tmp_path / name, server=server.server, port=free_port(), extra_args=at_once)
        for name in ("first", "second")
    )
    with first, second:
        yield first, second


@pytest.fixture
async def pair(servers_of_pair: tuple[OwnStore, OwnStore]) -> AsyncIterator[Pair]:
    first, second = servers_of_pair
    async with Link(first.url) as name:
        pair = Pair(first, second, name)
        await ask(second, "REPLICAOF", "127.0.0.1", first.port)
        await eventually("the second copies the first", pair.copied)
        yield pair


async def test_gateway_consumer_and_heart_follow_the_name_to_the_new_primary(pair: Pair, tmp_path: Path) -> None:
    async with Deployment(pair.name.url, tmp_path) as deployment:
        gateway, worker = await asyncio.gather(deployment.gateway(), deployment.consumer("kurly"))
        body = {"platform": "kurly", "kind": "drill", "args": {"steps": 12, "seconds": 0.25}}
        begun = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
        assert begun.status_code == 202
        job = begun.json()["jobId"]
        await deployment.started(job)
        await pair.demote()
        await asyncio.sleep(0.5)  # every process meets the demoted server, also by new connections
        opened = pair.name.opened
        pair.lead_on()
        history = await deployment.ended(job)
        assert tell(history[-1]) == "completed 1", [tell(event) for event in history]
        assert "superseded" not in {event.status for event in history}
        body = {**body, "args": {"steps": 1, "seconds": 0}}

        async def accepted() -> str:
            answer = await deployment.http.post(f"{gateway.url}/api/jobs", json=body)
            return answer.json()["jobId"] if answer.status_code == 202 else ""

        job = await eventually("the gateway accepts a job again", accepted)
        assert (await deployment.ended(job))[-1].workerId == worker.owner
        await ask(pair.first, "REPLICAOF", "127.0.0.1", 1)  # what is still read there will never change again
        before = await beats(pair.second, worker.owner)

        async def beats_on() -> bool:
            return await beats(pair.second, worker.owner) > before + 1

        await eventually("the heart beats at the new primary", beats_on)
        assert pair.name.opened - opened < 40, "there is a pause between two tries"
        for process in (gateway, worker):
            assert "Traceback" not in process.log.read_text()


async def beats(server: OwnStore, owner: str) -> int:
    async with direct(server) as store:
        said = await store.command("HGET", PlatformKeys("kurly")["beats"], owner)
        return int(said.split()[0]) if said else 0


async def test_a_wait_that_a_demotion_ends_closes_every_connection(pair: Pair) -> None:
    async with Store(pair.name.url) as store, store.blocking(60) as ears:
        await store.command("PING")
        waiting = asyncio.create_task(ears.command("XREAD", "BLOCK", 60_000, "STREAMS", FEED, "$"))
        await asyncio.sleep(0.1)  # it waits on the server
        await pair.demote()
        with pytest.raises(NoStore, match="UNBLOCKED"):
            await waiting
        with pytest.raises(NoStore, match="replica"):  # its own connection is closed too
            await store.command("GET", "a")
        pair.lead_on()
        assert await store.command("SET", "a", 1) == b"OK"
        assert await ears.command("GET", "a") == b"1"


async def test_a_write_that_is_refused_closes_every_connection(pair: Pair) -> None:
    async with Store(pair.name.url) as store, store.blocking(60) as ears:
        for each in (store, ears):
            assert await each.command("PING") == b"PONG"
        await pair.demote()
        pair.lead_on()
        with pytest.raises(NoStore, match="READONLY"):
            await store.command("SET", "a", 1)
        assert await store.command("SET", "a", 1) == b"OK"
        assert await ears.command("GET", "a") == b"1"


async def test_a_reader_leaves_a_server_that_became_a_replica_at_the_next_look_at_its_fitness(pair: Pair) -> None:
    """A replica answers reads for ever: only its role tells."""
    async with Store(pair.name.url) as store, store.blocking(1) as ears:
        await ears.command("GET", "a")
        await store.command("GET", "a")
        await pair.demote()
        pair.lead_on()
        with pytest.raises(NoStore, match="replica"):
            await check_fitness(store)
        for each in (store, ears):
            assert b"role:master" in await each.command("INFO", "replication")


async def test_a_replica_is_not_connected_to(pair: Pair) -> None:
    async with Store(pair.second.url) as store:
        with pytest.raises(NoStore, match="read-only replica now; REDIS_URL must lead to its primary"):
            await store.command("PING")
