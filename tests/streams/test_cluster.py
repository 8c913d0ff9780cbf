"""On a cluster: each call goes to the node of its slot, a slot may move, and a node may fail."""

import argparse
import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tailrace.ops.cli.platforms import locate
from tailrace.ops.connect import reach
from tailrace.ops.doctor.doctor import examine
from tailrace.ops.doctor.finding import Finding
from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Producer, Submission
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import BadConfiguration, UnfitStore
from tailrace.streams.functions import Script
from tailrace.streams.policies import Policy
from tailrace.streams.store.cluster import Cluster
from tailrace.streams.store.connection import ServerRefusal, Store
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.server import ping
from tailrace.streams.store.slots import slot_of
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.census import take_census
from tailrace.streams.views.health import take_health
from tailrace.streams.views.overview import take_overviews
from tailrace.streams.views.presence import Presence
from tests.support.builders import Desk, tell
from tests.support.clusters import SlotMove, owner_of
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

PLATFORMS = [f"p{number}" for number in range(20)]


@pytest.fixture(scope="module")
def cluster(valkey: OwnStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    with OwnCluster(tmp_path_factory.mktemp("cluster"), 3, server=valkey.server) as cluster:
        yield cluster


@pytest.fixture
async def store(cluster: OwnCluster) -> AsyncIterator[Store]:
    cluster.flush()
    async with Store(cluster.url, answer_seconds=2.0) as store:
        yield store


async def test_what_concerns_many_platforms_goes_to_each_node(store: Store) -> None:
    transitions, keys = Transitions(store), [store.keys(name) for name in PLATFORMS]
    rules = [(each, Policy()) for each in keys]
    for name in PLATFORMS:
        await Desk(store, name).submit("a")
    assert len({(await store.node_of(name)).name for name in PLATFORMS}) == 3
    assert {tally.waiting for tally in await transitions.tally(keys)} == {1}  # type: ignore[union-attr]
    assert len(await transitions.beat([(each, []) for each in keys], "ann")) == len(PLATFORMS)
    assert [list(beats) for beats in await transitions.tend(rules)] == [["ann"]] * len(PLATFORMS)
    assert len(await transitions.forget(rules)) == len(PLATFORMS)
    assert (await take_census(store, PLATFORMS)).waiting == dict.fromkeys(PLATFORMS, 1)
    assert {each.waiting for each in await take_overviews(store, PLATFORMS)} == {1}


async def test_while_a_slot_moves_nothing_is_half_done_and_calls_keep_their_order(
    cluster: OwnCluster, store: Store
) -> None:
    desk = Desk(store, "moving")
    await desk.submit("a", "b", "c")
    held = await desk.claim(slots=2)
    move = SlotMove(cluster, desk.keys["leases"])
    move.begin()
    move.move(most=4)
    waiting = [asyncio.create_task(desk.complete(held[0])), asyncio.create_task(desk.submit("d"))]
    waiting.append(asyncio.create_task(desk.submit("e")))
    await asyncio.sleep(0.2)
    assert not any(task.done() for task in waiting), "a call that finds a part of its keys has to wait"
    assert await store.command("EXISTS", desk.keys.record("a")) == 1, "a single key is found wherever it is"
    move.end()
    await asyncio.gather(*waiting)
    assert [claim.key for claim in await desk.claim(slots=9)] == ["c", "d", "e"]
    assert (await store.node_of("moving")).name == f"127.0.0.1:{move.target.port}"


async def test_a_script_never_runs_where_only_its_named_keys_are(cluster: OwnCluster, store: Store) -> None:
    """It would write one key, and stop at another that has moved."""
    prefix = store.keys("guarded").prefix
    text = "redis.call('SET', KEYS[1], 'written') return redis.call('GET', ARGV[1])"
    script = Script(text, hashlib.sha1(text.encode()).hexdigest(), {})
    await store.commands([("SET", f"{prefix}a", "before"), ("SET", f"{prefix}b", "moved")])
    move = SlotMove(cluster, prefix)
    move.begin()
    move.move_keys(f"{prefix}b")
    waiting = asyncio.create_task(store.run(script, [f"{prefix}a"], [f"{prefix}b"]))
    await asyncio.sleep(0.1)
    assert (waiting.done(), await store.command("GET", f"{prefix}a")) == (False, b"before")
    move.end()
    assert await waiting == b"moved"


async def test_a_wait_for_a_bell_follows_its_slot(cluster: OwnCluster, store: Store) -> None:
    desk = Desk(store, "following")
    bell = desk.keys.bell("ann")
    move = SlotMove(cluster, bell)
    async with store.blocking(10) as ears:
        heard = asyncio.create_task(ears.command("BLPOP", bell, 10))
        await asyncio.sleep(0.1)
        move.begin()
        move.end()
        await store.command("RPUSH", bell, 1)
        assert (await heard)[1] == b"1"


async def test_a_node_that_hangs_holds_up_no_other_and_is_named(cluster: OwnCluster) -> None:
    cluster.flush()
    async with Store(cluster.url, answer_seconds=60.0) as store:
        await see_a_node_hang(cluster, store)


async def see_a_node_hang(cluster: OwnCluster, store: Store) -> None:
    """What waits for the hung node waits for a minute here: nothing else does."""
    desks = {name: Desk(store, name) for name in PLATFORMS}
    for desk in desks.values():
        await desk.submit("a")
        await desk.beat("ann")
    hung = owner_of(cluster, 0)
    name_of_hung = f"127.0.0.1:{hung.port}"
    down = {name for name in PLATFORMS if (await store.node_of(name)).name == name_of_hung}
    assert 0 < len(down) < len(PLATFORMS)
    os.kill(hung.pid, signal.SIGSTOP)
    try:
        stuck = [asyncio.create_task(desks[name].submit("b")) for name in down]
        for name in desks.keys() - down:
            await desks[name].submit("b")
        presence = Presence(Transitions(store), PLATFORMS, patience_seconds=0.0)
        overviews, advice, seen = await asyncio.gather(
            take_overviews(store, PLATFORMS), check_fitness(store), presence.see()
        )
        assert {each.platform for each in overviews if each.unavailable} == down
        assert {each.waiting for each in overviews if not each.unavailable} == {2}
        assert (await take_census(store, PLATFORMS)).unavailable.keys() == down
        assert any(said.startswith(f"node {name_of_hung} does not answer") for said in advice)
        assert {name for each in seen for name in each.platforms} == desks.keys() - down
        health = await take_health(Transitions(store), PLATFORMS)
        assert {node.address for node in health.store.nodes if node.down} == {name_of_hung}
        assert {each.overview.platform for each in health.platforms} == desks.keys() - down
        assert {name for name, node in health.node_of.items() if node == name_of_hung} == down
        assert not any(task.done() for task in stuck)
    finally:
        os.kill(hung.pid, signal.SIGCONT)
    await asyncio.gather(*stuck)
    assert {each.waiting for each in await take_overviews(store, PLATFORMS)} == {2}


async def test_every_process_works_on_a_cluster(cluster: OwnCluster, tmp_path: Path) -> None:
    """Platforms of the extract lane run one at a time together: on a cluster they share a slot."""
    cluster.flush()
    async with Deployment(cluster.url, tmp_path) as deployment:
        gateway, worker = await asyncio.gather(
            deployment.gateway(), deployment.consumer("extract", "url_extraction", "kurly", "research", "ably")
        )
        platforms = ("extract", "url_extraction", "extract", "kurly", "research", "ably")
        jobs = [await deployment.submit(name, steps=2, seconds=0.05) for name in platforms]
        assert {tell(history[-1]) for history in (await deployment.all_ended(jobs)).values()} == {"completed 1"}
        seen = (await deployment.http.get(f"{gateway.url}/api/platforms")).json()["data"]
        assert {each["platform"] for each in seen if worker.owner in each["consumers"]} >= set(platforms)
        spans = [(events[1].time, events[-1].time) for events in [await deployment.history(job) for job in jobs[:3]]]
        assert all(end <= begin for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False))


async def test_the_clients_order_is_kept_in_many_submissions(store: Store) -> None:
    producer = Producer(Transitions(store), BUILT_IN)
    done = await producer.submit_many([Submission("kurly", "drill", {"text": str(n)}) for n in range(300)])
    entries = await store.command("XRANGE", store.keys("kurly").jobs("normal"), "-", "+")
    assert [f"kurly.{fields[1].decode()}" for _, fields in entries] == [each.id for each in done]  # type: ignore[union-attr]


async def test_a_server_that_is_no_cluster_is_refused_with_its_right_address(valkey: OwnStore, tmp_path: Path) -> None:
    with OwnStore(tmp_path / "single", server=valkey.server, port=0) as single:
        async with Store(f"redis+cluster://127.0.0.1:{single.port}") as store:
            with pytest.raises(UnfitStore, match=rf"write REDIS_URL as redis://127\.0\.0\.1:{single.port}$"):
                await check_fitness(store)


async def test_a_node_of_a_cluster_as_a_single_server_is_refused_with_the_right_address(cluster: OwnCluster) -> None:
    node = f"127.0.0.1:{cluster.nodes[0].port}"
    async with Store(f"redis://:{cluster.password}@{node}") as store:
        right = rf"write REDIS_URL as redis\+cluster://{node}$"
        with pytest.raises(UnfitStore, match=right):
            await check_fitness(store)
        with pytest.raises(UnfitStore, match=right):
            await Transitions(store).tally([store.keys(name) for name in PLATFORMS])
        with pytest.raises(UnfitStore, match=right):
            await store.commands([("EXISTS", store.keys(name)["control"]) for name in PLATFORMS])  # one is elsewhere


async def test_keys_of_two_slots_are_refused_as_what_they_are(store: Store) -> None:
    with pytest.raises(ServerRefusal, match="CROSSSLOT"):
        await store.command("RENAME", store.keys("kurly")["ticks"], "elsewhere")


async def test_what_any_node_can_tell_is_asked_of_one_that_answers(cluster: OwnCluster) -> None:
    async with Store(cluster.url) as store:
        await store.nodes()
        assert isinstance(store._server, Cluster)
        store._server.map.moved(0, ("127.0.0.1", 1))  # the first node, and nothing listens there
        await ping(store)


async def test_an_uncovered_slot_is_named_and_the_rest_is_told(
    cluster: OwnCluster, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("research", "kurly"):
        await Desk(store, name).submit("a")
    slot = slot_of(store.keys("research").prefix)
    owner = owner_of(cluster, slot)

    async def is_uncovered() -> bool:
        """A node that still has the slot may have told another of it."""
        having = [node for node in cluster.nodes if cluster.fact(node, "cluster_slots_assigned") == "16384"]
        for node in sorted(having, key=lambda node: node is not owner):
            cluster.ask(node, "CLUSTER", "DELSLOTS", slot)
        return not having

    await eventually("no node has the slot", is_uncovered)
    monkeypatch.setenv("REDIS_URL", cluster.url)
    try:
        found = await examine(argparse.Namespace(data=tmp_path, repair=False))
        async with Store(cluster.url) as other:
            census = await take_census(other, BUILT_IN)
        options = argparse.Namespace(data=tmp_path, platform=None)
        async with reach(options) as reached:
            places = {overview.platform: node for overview, node in await locate(reached)}
    finally:
        cluster.ask(owner, "CLUSTER", "ADDSLOTS", slot)
    why = f"no node of the cluster serves slot {slot}; look at CLUSTER SLOTS"
    assert Finding("platforms", f"nothing is known of the jobs of research: {why}", "wrong") in found
    assert any(each.about == "kurly" and "no consumer serves it" in each.says for each in found)
    assert (census.waiting, census.unavailable) == ({"kurly": 1}, {"research": why})
    assert (places["research"], places["kurly"]) == ("", (await store.node_of("kurly")).name)


@pytest.mark.parametrize(
    "url", ["redis+cluster://h1,,h2", "redis+cluster://h1/3", "redis+cluster://h1:0", "redis+cluster://"]
)
def test_an_address_of_a_cluster_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadConfiguration, match=r"^REDIS_URL is not a valid URL of a cluster"):
        Store(url)
