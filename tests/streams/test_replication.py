"""Answers that wait for replicas: what they promise, what happens without enough of them, and what they cost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import producer as producer_module
from tailrace.producers.policies import Policies
from tailrace.producers.producer import Producer
from tailrace.producers.submissions import Submission
from tailrace.streams.errors import NotReplicated, WrongField
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.replication import ReplicaTerms
from tailrace.streams.transitions import Transitions
from tests.support.builders import Desk, tell
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.sentinels import Sentinels

REPLICATED = Platforms(shop=Policy(durability="replicated"), other=Policy())
SOON = ReplicaTerms(wait_ms=50)

ask = Sentinels.ask


class Pair(NamedTuple):
    """A primary and its replica."""

    primary: OwnStore
    replica: OwnStore

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """The replica stays connected and hears nothing."""
        os.kill(self.replica.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.replica.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def servers_of_pair(server: OwnStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder, at_once = tmp_path_factory.mktemp("pair"), ("--repl-diskless-sync-delay", "0", "--appendfsync", "no")
    first, second = (
        OwnStore(folder / name, server=server.server, port=free_port(), extra_args=at_once) for name in ("one", "two")
    )
    with first, second:
        yield Pair(first, second)


@pytest.fixture
async def pair(servers_of_pair: Pair) -> Pair:
    first, second = servers_of_pair
    ask(first, "REPLICAOF", "NO", "ONE")
    ask(first, "FLUSHALL")
    ask(second, "REPLICAOF", "127.0.0.1", str(first.port))
    async with Store(first.url, policies=REPLICATED, terms=ReplicaTerms(wait_ms=500)) as store:

        async def confirmed() -> bool:
            try:
                await Desk(store).submit("probe")
            except NotReplicated:
                return False
            return True

        await eventually("the replica confirms", confirmed)
    ask(first, "FLUSHALL")
    return servers_of_pair


@asynccontextmanager
async def opened(server: OwnStore, terms: ReplicaTerms = SOON) -> AsyncIterator[Store]:
    async with Store(server.url, policies=REPLICATED, terms=terms) as store:
        yield store


async def calls_of(store: Store, command: str) -> int:
    said = info_fields(await store.command("INFO", "commandstats")).get(f"cmdstat_{command}", "calls=0,")
    return int(said.split(",")[0].removeprefix("calls="))


async def test_a_submission_that_no_replica_confirms_names_its_job_and_may_be_repeated(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "REPEAT_SECONDS", 0.2)
    async with opened(pair.primary) as store:
        producer = Producer(Transitions(store), REPLICATED)
        with pair.lagging(), pytest.raises(NotReplicated, match="0 of 1 replicas confirmed it within 50 ms") as refused:
            await producer.submit(Submission("shop", "scan", id="a"))
        assert refused.value.job_ids == ("shop.a",)
        assert await store.command("EXISTS", store.keys("shop").record("a")) == 1
    async with opened(pair.primary, ReplicaTerms(wait_ms=20_000)) as store:
        again = await Producer(Transitions(store), REPLICATED).submit(Submission("shop", "scan", id="a"))
        assert (again.id, again.replayed) == ("shop.a", True)


async def test_a_call_that_was_carried_out_on_another_connection_still_waits_for_replicas(pair: Pair) -> None:
    async with opened(pair.primary) as one, opened(pair.primary) as two:
        desk, beside = Desk(one), Desk(two)
        await desk.submit("a", "b")
        held, other = await desk.claim("ann", 2)
        with pair.lagging():
            for each in (desk, beside):
                with pytest.raises(NotReplicated):
                    await each.submit("c")
                with pytest.raises(NotReplicated):
                    await each.claim_as("ann", [held.nonce])
                with pytest.raises(NotReplicated):
                    await each.report(other, 1)
                with pytest.raises(NotReplicated):
                    await each.transitions.save(each.keys, other.key, other.nonce, "step", b"1")
            for each in (desk, beside):
                with pytest.raises(NotReplicated):
                    await each.complete(held)
                with pytest.raises(NotReplicated):
                    await each.transitions.cancel(each.keys, "c")
                with pytest.raises(NotReplicated):
                    await each.fail(other)
        assert await calls_of(one, "wait") > 0


async def test_other_platforms_and_beats_do_not_wait(pair: Pair) -> None:
    async with opened(pair.primary) as store:
        shop = Desk(store)
        held = await shop.start("a")
        with pair.lagging():
            with pytest.raises(NotReplicated):
                await shop.report(held, 1)
            assert await shop.beat("ann", [held]) == ([], [])
            assert await Desk(store, "other").submit("a") == [["accepted", "waiting"]]


async def test_a_claim_that_no_replica_confirmed_gives_the_same_job_when_it_is_repeated(pair: Pair) -> None:
    async with opened(pair.primary) as store:
        desk = Desk(store)
        await desk.submit("a")
        with pair.lagging(), pytest.raises(NotReplicated):
            await desk.claim_as("ann", ["n1"])
    async with opened(pair.primary, ReplicaTerms(wait_ms=20_000)) as store:
        (held,) = await Desk(store).claim_as("ann", ["n1"])
        assert (held.key, held.number) == ("a", 1)


async def test_calls_of_one_moment_share_a_wait(pair: Pair) -> None:
    async with opened(pair.primary, ReplicaTerms(wait_ms=20_000)) as store:
        before = await calls_of(store, "wait")
        await asyncio.gather(*(Desk(store).submit(f"job-{number}") for number in range(50)))
        assert await calls_of(store, "wait") - before < 10


async def test_a_promoted_replica_that_lagged_gives_a_number_again_and_lets_no_zombie_write(pair: Pair) -> None:
    async with opened(pair.primary) as old, Store(pair.replica.url) as new:
        desk = Desk(old)
        await desk.submit("a")
        ask(pair.replica, "REPLICAOF", "NO", "ONE")  # from here on it lacks what the old primary does
        old.policies = {}  # as on a platform that does not wait
        (zombie,) = await desk.claim("ann")
        assert await desk.report(zombie, 1) == "shown"
        after, late = Desk(new), Desk(new)
        after.fresh = (f"after-{number}" for number in range(9))
        (owner,) = await after.claim("bob")
        assert (owner.number, zombie.number) == (1, 1), "the number is issued twice, the nonce is not"
        late.owners = desk.owners
        assert await late.report(zombie, 2) == "lost"
        assert await late.complete(zombie) == "lost"
        assert await late.fail(zombie) == "lost"
        assert await after.complete(owner) == "ok"
        assert await late.complete(zombie) == "lost"
        assert [tell(event) for event in await after.history("a")] == ["queued", "started 1", "completed 1"]


async def test_replicated_is_refused_and_reported_where_there_are_too_few_replicas(pair: Pair) -> None:
    async with opened(pair.primary, ReplicaTerms(replicas=2)) as store:
        policies = Policies(Transitions(store), Platforms(REPLICATED))
        with pytest.raises(
            WrongField, match=r"durability: replicated needs TAILRACE_REPLICAS \(2\) replicas; the store of other has 1"
        ):
            await policies.change("other", {"durability": "replicated"})
        (advice,) = [said for said in await check_fitness(store) if "replicas" in said]
        assert "the store has 1 of the 2 replicas that TAILRACE_REPLICAS asks for" in advice
    async with opened(pair.primary) as store:
        assert not [said for said in await check_fitness(store) if "replicas" in said]
        policies = Policies(Transitions(store), Platforms(REPLICATED))
        assert (await policies.change("other", {"durability": "replicated"})).durability == "replicated"
