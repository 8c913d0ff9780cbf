"""The health of the store and of each platform now, as metrics and alerts read it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from tailrace.streams.errors import NoStore, StoreError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.store.connection import ServerRefusal, Store
from tailrace.streams.store.server import NodeInfo, read_nodes
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.apart import look_apart
from tailrace.streams.views.corrupt import of_each
from tailrace.streams.views.overview import Overview, Sighting, sightings_of

AT_ONCE = 50  # platforms that are counted in one call: a few milliseconds of the server's time at most
NOTHING = Tally(0, 0, 0, 0)
INFINITE = 2**63


class StoreHealth(Struct, frozen=True):
    """The store as it answered a moment ago; on a cluster what is worst on any node that answers."""

    now_ms: int
    trip_seconds: float
    memory_bytes: int
    memory_limit_bytes: int  # 0: as much as the machine has
    evicts: bool
    keeps_file: bool  # an append-only file
    failing: tuple[str, ...]  # what it says of its writes to disk, where that is not `ok`
    nodes: tuple[NodeInfo, ...] = ()  # of a cluster

    @property
    def memory_share(self) -> float:
        return self.memory_bytes / self.memory_limit_bytes if self.memory_limit_bytes else 0.0


class PlatformHealth(Struct, frozen=True):
    overview: Overview
    tally: Tally  # what has ever ended, and was ever lost
    next_tick_ms: int | None  # of the schedule that is due first
    waiting_since_ms: int | None = None  # since when the oldest waiting job waits


class Health(Struct, frozen=True):
    """The health of the store and of all platforms; reading it costs the same for any number of jobs."""

    store: StoreHealth
    platforms: list[PlatformHealth]  # without those whose node does not answer
    node_of: Mapping[str, str] = {}  # on a cluster: the node of each platform


async def take_health(transitions: Transitions, platforms: Iterable[str]) -> Health:
    """Raises `StoreError` when the store does not answer.

    One that cannot write to its disk answers, but runs no script: then nothing is known of platforms.
    """
    store, names = transitions.store, list(platforms)
    server = await look_at_store(store)
    try:
        looked = await look_apart(store, names, partial(look_at_platforms, transitions))
    except StoreError:
        if not server.failing:
            raise
        return Health(server, [])
    seen = {each.overview.platform: each for group in looked.answers for each in group}
    node_of = {name: (await store.node_of(name)).name for name in names} if store.clustered else {}
    return Health(server, [seen[name] for name in names if name in seen], node_of)


async def look_at_platforms(transitions: Transitions, names: Sequence[str]) -> list[PlatformHealth]:
    store = transitions.store
    keys = [store.keys(name) for name in names]
    sightings, tallies, ticks = await asyncio.gather(
        of_each(keys, partial(see_platforms, store)),
        count_ends(transitions, keys),
        of_each(keys, partial(next_ticks, store)),
    )
    return [
        PlatformHealth(seen.overview, tallies.get(name, NOTHING), ticks.get(name), seen.waiting_since_ms)
        for name, seen in sightings.items()
    ]


async def see_platforms(store: Store, platforms: Sequence[PlatformKeys]) -> list[Sighting]:
    with as_broken():
        return await sightings_of(store, [keys.platform for keys in platforms])


@contextmanager
def as_broken() -> Iterator[None]:
    """A server that refuses a read has found a key of another type."""
    try:
        yield
    except ServerRefusal as error:
        raise BrokenOperation(str(error)) from None


async def look_at_store(store: Store) -> StoreHealth:
    """Raises `NoStore` when no node answers."""
    nodes = await read_nodes(store)
    up = [node for node in nodes if not node.down]
    if not up:
        raise NoStore(nodes[0].down if nodes else "no node of the cluster is known")
    fullest = max(up, key=lambda node: (node.memory_bytes / (node.memory_limit_bytes or INFINITE), node.memory_bytes))
    return StoreHealth(
        now_ms=up[0].now_ms,
        trip_seconds=max(node.trip_seconds for node in up),
        memory_bytes=fullest.memory_bytes,
        memory_limit_bytes=fullest.memory_limit_bytes,
        evicts=any(node.evicts for node in up),
        keeps_file=all(node.keeps_file for node in up),
        failing=tuple(dict.fromkeys(word for node in up for word in node.failing)),
        nodes=tuple(nodes) if store.clustered else (),
    )


async def count_ends(transitions: Transitions, platforms: Sequence[PlatformKeys]) -> dict[str, Tally]:
    """How many jobs have ever ended on each platform, by outcome; a platform with corrupt keys is left out."""
    found: dict[str, Tally] = {}
    for start in range(0, len(platforms), AT_ONCE):
        keys = platforms[start : start + AT_ONCE]
        for each, counted in zip(keys, await transitions.tally(keys), strict=True):
            if not isinstance(counted, BrokenOperation):
                found[each.platform] = counted
    return found


async def next_ticks(store: Store, platforms: Sequence[PlatformKeys]) -> list[int | None]:
    """The next tick of each platform that has a schedule."""
    with as_broken():
        replies = await store.commands([("ZRANGE", keys["ticks"], 0, 0, "WITHSCORES") for keys in platforms])
    return [int(float(reply[1])) if reply else None for reply in replies]
