"""Leases: the right to run a job, as it is written under a nonce."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Lease
from tailrace.streams.replies import pairs, read_feed_ends
from tailrace.streams.store.connection import Store

LEASES_COUNT = 250  # leases in one read: a fraction of a millisecond


def to_lease(nonce: str, text: str) -> Lease:
    """Read a lease as shared/lease.lua writes it.

    Reports shown, number of the last event, key, id of `started`, attempt, owner, band, entry, deadline, then marks.
    """
    _, _, key, _, _, owner, band, entry, deadline_ms, *marks = text.split(" ")
    return Lease(nonce, key, band, entry, owner, int(deadline_ms) / 1000, " ".join(marks))


def to_leases(texts: Mapping[str, str]) -> list[Lease]:
    """Leases by nonce, from what is stored; unreadable ones are left out."""
    leases = []
    for nonce, text in texts.items():
        with suppress(ValueError):
            leases.append(to_lease(nonce, text))
    return leases


async def scan_leases(store: Store, keys: PlatformKeys) -> AsyncIterator[dict[str, str]]:
    """Every lease of a platform as it is written, by nonce, page by page; one may come twice."""
    cursor = b"0"
    while True:
        cursor, flat = await store.command("HSCAN", keys["leases"], cursor, "COUNT", LEASES_COUNT)
        yield pairs(flat)
        if cursor == b"0":
            return


async def read_leases(store: Store, keys: PlatformKeys) -> list[Lease]:
    """Every lease of a platform, in several calls; unreadable ones are left out."""
    leases = {lease.nonce: lease async for page in scan_leases(store, keys) for lease in to_leases(page)}
    return list(leases.values())


async def read_leases_under(store: Store, keys: PlatformKeys, nonces: Sequence[str]) -> list[Lease]:
    """The leases under some nonces; those that do not exist are left out."""
    found: list[Lease] = []
    for start in range(0, len(nonces), LEASES_COUNT):
        piece = nonces[start : start + LEASES_COUNT]
        texts = await store.command("HMGET", keys["leases"], *piece)
        found += to_leases({nonce: text.decode() for nonce, text in zip(piece, texts, strict=True) if text})
    return found


async def see_limit(store: Store, keys: PlatformKeys, label: str) -> str:
    """The `seen` of `tidy` for a limit key: the entries the feed ever had, then the nonces of leases with that key."""
    feed = keys["events"]
    before = (await read_feed_ends(store, [feed]))[feed].added
    having = [lease.nonce for lease in await read_leases(store, keys) if f"limit={label}" in lease.marks.split()]
    return " ".join([str(before), *having])
