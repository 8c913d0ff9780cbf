"""Everything an operator is warned of, as it is now: the store, and each platform. Metrics and alerts read it."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.store.connection import ServerRefusal, Store, info_fields
from tailrace.streams.store.fitness import WRITES
from tailrace.streams.store.server import to_ms
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.corrupt import of_each
from tailrace.streams.views.overview import Overview, take_overviews

AT_ONCE = 50  # platforms that are counted in one call: a few milliseconds of the server's time at most
NOTHING = Tally(0, 0, 0, 0)


class StoreHealth(Struct, frozen=True):
    """The server as it answered a moment ago."""

    now_ms: int
    trip_seconds: float
    memory_bytes: int
    memory_limit_bytes: int  # 0: as much as the machine has
    evicts: bool
    keeps_file: bool  # an append-only file
    failing: tuple[str, ...]  # what it says of its writes to disk, where that is not `ok`

    @property
    def memory_share(self) -> float:
        return self.memory_bytes / self.memory_limit_bytes if self.memory_limit_bytes else 0.0


class PlatformHealth(Struct, frozen=True):
    overview: Overview
    tally: Tally  # what has ever ended, and was ever lost
    next_tick_ms: int | None  # of the schedule that is due first


class Health(Struct, frozen=True):
    """All of it, read in a few trips; no cost grows with the number of jobs."""

    store: StoreHealth
    platforms: list[PlatformHealth]


async def take_health(transitions: Transitions, platforms: Iterable[str]) -> Health:
    """Raises `StoreError` when the store does not answer."""
    store, names = transitions.store, list(platforms)
    keys = [store.keys(name) for name in names]
    server = await look_at_store(store)
    overviews, tallies, ticks = await asyncio.gather(
        of_each(keys, partial(see_platforms, store)),
        count_ends(transitions, keys),
        of_each(keys, partial(next_ticks, store)),
    )
    return Health(
        server,
        [PlatformHealth(overviews[name], tallies.get(name, NOTHING), ticks.get(name)) for name in overviews],
    )


async def see_platforms(store: Store, platforms: Sequence[PlatformKeys]) -> list[Overview]:
    with as_broken():
        return await take_overviews(store, [keys.platform for keys in platforms])


@contextmanager
def as_broken() -> Iterator[None]:
    """A server that refuses a read has found a key of another type."""
    try:
        yield
    except ServerRefusal as error:
        raise BrokenOperation(str(error)) from None


async def look_at_store(store: Store) -> StoreHealth:
    begun = time.monotonic()
    clock = await store.command("TIME")
    trip_seconds = time.monotonic() - begun
    memory, persistence = [
        info_fields(raw) for raw in await store.commands([("INFO", "memory"), ("INFO", "persistence")])
    ]
    return StoreHealth(
        now_ms=to_ms(clock),
        trip_seconds=trip_seconds,
        memory_bytes=int(memory.get("used_memory", 0)),
        memory_limit_bytes=int(memory.get("maxmemory", 0)),
        evicts=memory.get("maxmemory_policy", "noeviction") != "noeviction",
        keeps_file=persistence.get("aof_enabled") == "1",
        failing=tuple(name for name in WRITES if persistence.get(name, "ok") != "ok"),
    )


async def count_ends(transitions: Transitions, platforms: Sequence[PlatformKeys]) -> dict[str, Tally]:
    """What has ever ended on each platform; one with corrupt keys is left out."""
    found: dict[str, Tally] = {}
    for start in range(0, len(platforms), AT_ONCE):
        keys = platforms[start : start + AT_ONCE]
        for each, counted in zip(keys, await transitions.tally(keys), strict=True):
            if not isinstance(counted, BrokenOperation):
                found[each.platform] = counted
    return found


async def next_ticks(store: Store, platforms: Sequence[PlatformKeys]) -> list[int | None]:
    """When the next schedule of each platform is due, where there is one."""
    with as_broken():
        replies = await store.commands([("ZRANGE", keys["ticks"], 0, 0, "WITHSCORES") for keys in platforms])
    return [int(float(reply[1])) if reply else None for reply in replies]
