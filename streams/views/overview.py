"""Each platform at a glance: how many jobs are in which state, whether it is paused, how long the oldest one waits."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import read_event
from tailrace.streams.keys import BANDS, GROUP, PlatformKeys
from tailrace.streams.messages import Record
from tailrace.streams.options import LAST_MS, at_ms
from tailrace.streams.pauses import read_pause
from tailrace.streams.replies import to_record, which
from tailrace.streams.states import State, Status
from tailrace.streams.store.connection import Command, Store
from tailrace.streams.store.server import read_clock
from tailrace.streams.views.apart import look_apart
from tailrace.streams.words import Count, PlatformName, Seconds, Time

FIRST_IN_LINE = 20  # entries at the head of each band that are looked at for the oldest waiting job
NOT_HANDED_OUT = 5  # and of those that no consumer was given yet, and of those at the front
KEPT_APART = 10_000  # ended jobs with a time of their own are told apart by their state up to this many


SEEN = (
    *(f"jobs_{band}" for band in BANDS),
    *("leases", "due", "awaiting", "ended_completed", "ended_kept", "ended_failed", "ended_cancelled", "control"),
)
"""The keys that an overview reads, in this order."""
KEPT = SEEN.index("ended_kept")


class Overview(Struct, frozen=True, rename="camel"):
    """One platform at one moment, as clients get it; of ended jobs, those that are still kept."""

    platform: PlatformName
    waiting: Count
    running: Count
    delayed: Count
    awaiting: Count
    completed: Count
    failed: Count
    cancelled: Count
    oldest_waiting_seconds: Seconds | None
    paused: bool
    paused_by: str | None
    paused_since: Time | None
    held_seconds: Seconds | None  # a handler found a rate exceeded: nothing starts before that
    unavailable: str | None = None  # why its node of the cluster does not answer: nothing is known of it then


class Sighting(Struct, frozen=True):
    """An overview, and facts behind it that clients do not get."""

    overview: Overview
    waiting_since_ms: int | None = None  # the store's time from which on the oldest waiting job has waited


async def take_overviews(store: Store, platforms: Iterable[str]) -> list[Overview]:
    """Every platform in a few trips, however many there are; one without any job costs one look."""
    return [each.overview for each in await take_sightings(store, platforms)]


async def find_unavailable(store: Store, platforms: Iterable[str]) -> dict[str, str]:
    """The platforms whose node of a cluster does not answer, and why."""
    seen = await take_overviews(store, platforms) if store.clustered else []
    return {each.platform: each.unavailable for each in seen if each.unavailable}


async def take_sightings(store: Store, platforms: Iterable[str]) -> list[Sighting]:
    names = list(platforms)
    looked = await look_apart(store, names, lambda group: sightings_of(store, group))
    seen = {each.overview.platform: each for found in looked.answers for each in found}
    return [seen.get(name) or Sighting(unused(name, str(looked.down[name]))) for name in names]


async def sightings_of(store: Store, platforms: Sequence[str]) -> list[Sighting]:
    all_keys = [store.keys(platform) for platform in platforms]
    if not all_keys:
        return []
    now_ms, seen = await asyncio.gather(read_clock(store, all_keys[0]), which(store, all_keys, SEEN))
    used = [keys for keys in all_keys if keys.platform in seen]
    found = {each.overview.platform: each for each in await look_at(store, used, now_ms)}
    return [found.get(keys.platform) or Sighting(unused(keys.platform)) for keys in all_keys]


def unused(platform: str, unavailable: str | None = None) -> Overview:
    return Overview(platform, 0, 0, 0, 0, 0, 0, 0, None, False, None, None, None, unavailable)


async def look_at(store: Store, used: Sequence[PlatformKeys], now_ms: int) -> list[Sighting]:
    commands: list[Command] = []
    for keys in used:
        commands += [("XLEN", keys.jobs(band)) for band in BANDS]
        commands += [
            ("HLEN", keys["leases"]),
            ("ZCARD", keys["due"]),
            ("ZCARD", keys["awaiting"]),
            ("LLEN", keys["ended_completed"]),
            ("ZCARD", keys["ended_kept"]),
            ("ZCARD", keys["ended_failed"]),
            ("ZCARD", keys["ended_cancelled"]),
            ("HMGET", keys["control"], "paused", "held_until_ms", "held_ms"),
        ]
    replies = await store.commands(commands)
    width = len(SEEN)
    rows = [replies[start : start + width] for start in range(0, len(replies), width)]
    lines = [
        (keys, [band for band, length in zip(BANDS, row, strict=False) if length])
        for keys, row in zip(used, rows, strict=True)
    ]
    oldest = await find_oldest(store, lines)
    apart = await count_apart(store, [keys for keys, row in zip(used, rows, strict=True) if row[KEPT]])
    sightings = []
    for keys, row in zip(used, rows, strict=True):
        *lengths, running, delayed, awaiting, completed, kept, failed, cancelled, control = row
        waiting = max(0, sum(lengths) - running - delayed - awaiting)
        since = min(oldest[keys.platform], now_ms) if waiting and keys.platform in oldest else None
        by, paused_since = read_pause(control[0])
        held_ms = min(float(control[1] or 0) - now_ms, float(control[2] or "inf"))
        overview = Overview(
            platform=keys.platform,
            waiting=waiting,
            running=running,
            delayed=delayed,
            awaiting=awaiting,
            completed=completed + kept - apart.get(keys.platform, 0),
            failed=failed,
            cancelled=cancelled,
            oldest_waiting_seconds=None if since is None else round((now_ms - since) / 1000, 3),
            paused=control[0] is not None,
            paused_by=by,
            paused_since=paused_since,
            held_seconds=round(held_ms / 1000, 3) if held_ms > 0 else None,
        )
        sightings.append(Sighting(overview, since))
    return sightings


async def count_apart(store: Store, platforms: Sequence[PlatformKeys]) -> dict[str, int]:
    """How many of those that are kept for a time of their own have not completed."""
    counts = await store.commands(
        ("ZINTERCARD", 2, keys["ended_kept"], keys[ended], "LIMIT", KEPT_APART)
        for keys in platforms
        for ended in ("ended_failed", "ended_cancelled")
    )
    pairs = zip(platforms, counts[::2], counts[1::2], strict=True)
    return {keys.platform: failed + cancelled for keys, failed, cancelled in pairs}


async def find_oldest(store: Store, lines: Sequence[tuple[PlatformKeys, Sequence[str]]]) -> dict[str, int]:
    """Since when the job waits that has waited longest, by platform.

    Looked at are the head of each line, its front, and the first entries that no consumer was given. A line may begin
    with very many jobs that rest; what is parked behind those is not seen, so the oldest job may wait longer than this.
    """
    wanted = [(keys, band) for keys, bands in lines for band in bands]
    groups = await store.commands([("XINFO", "GROUPS", keys.jobs(band)) for keys, band in wanted])
    commands: list[Command] = []
    owners: list[PlatformKeys] = []
    for (keys, band), found in zip(wanted, groups, strict=True):
        delivered = last_delivered(found)
        commands += [
            ("XRANGE", keys.jobs(band), "-", "+", "COUNT", FIRST_IN_LINE),
            ("XRANGE", keys.jobs(band), f"({delivered}", "+", "COUNT", NOT_HANDED_OUT),
        ]
        owners += [keys, keys]
    commands += [("ZRANGE", keys.front(band), 0, NOT_HANDED_OUT - 1) for keys, band in wanted]
    replies = await store.commands(commands)
    candidates: dict[tuple[str, str], PlatformKeys] = {}
    for keys, entries in zip(owners, replies, strict=False):
        for _, values in entries:
            candidates[keys.platform, values[1].decode(errors="replace")] = keys
    for (keys, _), members in zip(wanted, replies[len(owners) :], strict=True):
        candidates.update({(keys.platform, member.decode(errors="replace")): keys for member in members})
    oldest: dict[str, int] = {}
    told = await store.commands(
        command
        for (_, key), keys in candidates.items()
        for command in (("HGETALL", keys.record(key)), ("LINDEX", keys.log(key), -1))
    )
    for ((platform, key), keys), flat, last in zip(candidates.items(), told[::2], told[1::2], strict=True):
        with suppress(LookupError, TypeError, ValueError):
            record = to_record(keys, key, flat)
            if record and record.state is State.WAITING:
                since = waiting_since(record, last)
                oldest[platform] = min(since, oldest.get(platform, since))
    return oldest


def waiting_since(record: Record, last: bytes | None) -> int:
    """Since when a job waits: its acceptance, unless its last event queued it again, or names the time that did."""
    event = read_event(record.id, last) if last else None
    if event and event.status is Status.AWAITING:
        return LAST_MS  # no event says when it was resumed
    with suppress(WrongField):
        return at_ms(event.until or event.retryAt or event.time if event else None, "time") or record.accepted_ms
    return record.accepted_ms


def last_delivered(groups: Sequence[Sequence[bytes]]) -> str:
    """Up to which entry a line was handed out, as XINFO GROUPS tells it."""
    for flat in groups:
        group = dict(zip(flat[::2], flat[1::2], strict=True))
        if group[b"name"] == GROUP.encode():
            return group[b"last-delivered-id"].decode()
    return "0-0"
