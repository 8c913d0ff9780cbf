"""Jobs by their state, page by page: bounded work for each page, however many there are.

A page's `next` is where the following page begins; None: this was the last. It stays right while jobs come and go.
"""

from collections.abc import Sequence
from contextlib import suppress
from math import isfinite

from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import entry_order, read_event
from tailrace.streams.keys import BANDS, PlatformKeys
from tailrace.streams.leases import read_leases
from tailrace.streams.messages import Failure, Record
from tailrace.streams.options import LAST_MS
from tailrace.streams.process.turns import in_turns
from tailrace.streams.replies import to_record
from tailrace.streams.states import State
from tailrace.streams.store.connection import Command, Store

LIMIT, MOST = 100, 1000  # jobs on a page: unless told, and at most
LOOKED_AT = 2000  # entries of a line for one page: those that run or rest stand in it too
PIECE = 50  # entries in one read: their args come along
ENDED_SINCE = 20_000  # completed jobs that may come between two pages of them
MESSAGE = 1000  # characters of an error in a list; the job itself tells all

SORTED = {
    State.DELAYED: ("due", False),
    State.AWAITING: ("awaiting", False),
    State.FAILED: ("ended_failed", True),
    State.CANCELLED: ("ended_cancelled", True),
}
"""States whose jobs stand in a sorted set: which one, and whether the newest come first."""


class Listed(Struct, frozen=True):
    """A job on a page."""

    record: Record
    until_ms: int | None = None  # when a delayed job comes into the queue
    error: Failure | None = None  # why a failed one failed, without its traceback


class JobListing(Struct, frozen=True):
    jobs: tuple[Listed, ...]
    next: str | None


class ScoredMember(Struct, frozen=True, order=True):
    """A member of a sorted set with its score: a place between pages."""

    score: float
    member: str

    @property
    def cursor(self) -> str:
        return f"{self.score:.17g}.{self.member}"


async def list_jobs(store: Store, keys: PlatformKeys, state: State, limit: int = LIMIT, after: str = "") -> JobListing:
    """One page. Waiting: band by band in queue order; running: oldest first; delayed: next first; awaiting: the
    longest first; ended: newest first, of the completed those with a time of their own last."""
    if state in SORTED:
        name, newest_first = SORTED[state]
        return await list_places(store, keys, state, keys[name], limit, after, newest_first=newest_first)
    walks = {State.WAITING: list_waiting, State.RUNNING: list_running, State.COMPLETED: list_completed}
    return await walks[state](store, keys, limit, after) if state in walks else JobListing((), None)


async def list_waiting(store: Store, keys: PlatformKeys, limit: int, after: str) -> JobListing:
    band, _, entry = after.partition(".") if after else (BANDS[0], "", "")
    if band not in BANDS or (entry and not is_entry(entry)) or (after and not entry):
        raise unknown_place()
    found: list[Listed] = []
    looked_at = 0
    for line in BANDS[BANDS.index(band) :]:
        start = f"({entry}" if entry and line == band else "-"
        while entries := await store.command("XRANGE", keys.jobs(line), start, "+", "COUNT", PIECE):
            looked_at += len(entries)
            jobs = await read_listed(store, keys, [values[1].decode(errors="replace") for _, values in entries])
            for (entry_id, _), job in zip(entries, jobs, strict=True):
                if job and job.record.state is State.WAITING and job.record.entry == entry_id.decode():
                    found.append(job)
                    if len(found) == limit:
                        return JobListing(tuple(found), f"{line}.{entry_id.decode()}")
            if looked_at >= LOOKED_AT:
                return JobListing(tuple(found), f"{line}.{entries[-1][0].decode()}")
            start = f"({entries[-1][0].decode()}"
    return JobListing(tuple(found), None)


async def list_running(store: Store, keys: PlatformKeys, limit: int, after: str) -> JobListing:
    leases = await read_leases(store, keys)
    places = [(entry_order(lease.entry), lease.key) async for lease in in_turns(leases) if is_entry(lease.entry)]
    places.sort()
    if after:
        entry, _, key = after.partition(".")
        if not is_entry(entry):
            raise unknown_place()
        places = [place for place in places if place > (entry_order(entry), key)]
    jobs = await read_listed(store, keys, [key for _, key in places[:limit]])
    found = tuple(job for job in jobs if job and job.record.state is State.RUNNING)
    if len(places) <= limit:
        return JobListing(found, None)
    (ms, number), key = places[limit - 1]
    return JobListing(found, f"{ms}-{number}.{key}")


async def list_completed(store: Store, keys: PlatformKeys, limit: int, after: str) -> JobListing:
    """Completed jobs, newest first. A page after a removed job is empty: older jobs were removed before it."""
    ended = keys["ended_completed"]
    found: list[Listed] = []
    if "." not in after:
        depth = await depth_of(store, ended, after) if after else 0
        members = await store.command("LRANGE", ended, -depth - limit, -depth - 1)
        newest_first = [member.decode(errors="replace") for member in reversed(members)]
        found += [job for job in await read_listed(store, keys, newest_first) if job]
        if len(members) == limit:
            return JobListing(tuple(found), f"{newest_first[-1]}~{depth + limit}")
        after = ""
    rest = await list_places(
        store, keys, State.COMPLETED, keys["ended_kept"], limit - len(found), after, newest_first=True
    )
    return JobListing((*found, *rest.jobs), rest.next)


async def depth_of(store: Store, ended: str, after: str) -> int:
    """How many completed jobs stand from the newest to the last of a page: those of then, and what ended since."""
    key, _, told = after.partition("~")
    if not (told.isdecimal() and len(told) < 12):
        raise unknown_place()
    depth = max(int(told) - 1, 0)
    for _ in range(0, ENDED_SINCE, MOST):
        members = await store.command("LRANGE", ended, -depth - MOST, -depth - 1)
        if (member := key.encode()) in members:
            return depth + len(members) - int(members.index(member))
        depth += len(members)
        if len(members) < MOST:
            return depth
    raise WrongField("after", f"is older: more than {ENDED_SINCE} jobs completed since; begin again without it")


async def list_places(
    store: Store, keys: PlatformKeys, state: State, name: str, limit: int, after: str, *, newest_first: bool = False
) -> JobListing:
    places = await read_places(store, name, limit, after, newest_first=newest_first)
    jobs = await read_listed(store, keys, [place.member for place in places], errors=state is State.FAILED)
    found = tuple(
        Listed(job.record, int(min(place.score, LAST_MS)) if state is State.DELAYED else None, job.error)
        for place, job in zip(places, jobs, strict=True)
        if job and job.record.state is state
    )
    return JobListing(found, places[-1].cursor if len(places) == limit else None)


async def read_places(
    store: Store, name: str, count: int, after: str = "", *, newest_first: bool = False
) -> list[ScoredMember]:
    """Up to `count` members of a sorted set behind a place, whether or not that one is still there."""
    order = ("REV",) if newest_first else ()
    if not after:
        return to_places(await store.command("ZRANGE", name, 0, count - 1, *order, "WITHSCORES"))
    behind = to_place(after)
    ties = await ranks_of_ties(store, name, behind, newest_first=newest_first)
    farther = (f"({behind.score:.17g}", "-inf" if newest_first else "+inf", "BYSCORE", *order, "LIMIT", 0, count)
    commands: list[Command] = [("ZRANGE", name, *farther, "WITHSCORES")]
    if ties:
        last = min(ties.stop, ties.start + count) - 1
        commands.insert(0, ("ZRANGE", name, ties.start, last, *order, "WITHSCORES"))
    return [place for flat in await store.commands(commands) for place in to_places(flat)][:count]


async def ranks_of_ties(store: Store, name: str, place: ScoredMember, *, newest_first: bool) -> range:
    """The ranks of members after a place with the same score; found by bisection when its member is gone."""
    score, member = f"{place.score:.17g}", place.member.encode()
    before = (f"({score}", "+inf") if newest_first else ("-inf", f"({score}")
    start, ties, found, rank = await store.commands(
        [
            ("ZCOUNT", name, *before),
            ("ZCOUNT", name, score, score),
            ("ZSCORE", name, member),
            ("ZREVRANK" if newest_first else "ZRANK", name, member),
        ]
    )
    end = start + ties
    if found is not None and float(found) == place.score:
        return range(rank + 1, end)
    last = end
    while start < last:
        middle = (start + last) // 2
        there = await store.command("ZRANGE", name, middle, middle, *(("REV",) if newest_first else ()))
        if there and (there[0] > member) is newest_first:
            start = middle + 1
        else:
            last = middle
    return range(start, end)


def to_places(flat: Sequence[bytes]) -> list[ScoredMember]:
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return [ScoredMember(float(score), key.decode(errors="replace")) for key, score in pairs]


async def read_listed(
    store: Store, keys: PlatformKeys, jobs: Sequence[str], *, errors: bool = False
) -> list[Listed | None]:
    """The records of some jobs; None where there is none, or it is corrupt."""
    commands: list[Command] = [("HGETALL", keys.record(key)) for key in jobs]
    if errors:
        commands += [("LINDEX", keys.log(key), -1) for key in jobs]
    replies = await store.commands(commands)
    ends = replies[len(jobs) :] if errors else [None] * len(jobs)
    listed: list[Listed | None] = []
    async for key, flat, end in in_turns(zip(jobs, replies, ends, strict=False)):
        job = None
        with suppress(LookupError, TypeError, ValueError):
            record = to_record(keys, key, flat)
            job = Listed(record, error=error_of(record, end)) if record else None
        listed.append(job)
    return listed


def error_of(record: Record, end: bytes | None) -> Failure | None:
    """Why a job failed, by its last event."""
    event = read_event(record.id, end) if end else None
    return Failure(event.error.type, event.error.message[:MESSAGE]) if event and event.error else None


def to_place(cursor: str) -> ScoredMember:
    score, _, member = cursor.rpartition(".")
    try:
        place = ScoredMember(float(score), member)
    except ValueError:
        raise unknown_place() from None
    if not isfinite(place.score):
        raise unknown_place()
    return place


def is_entry(text: str) -> bool:
    """Whether this text is a valid id of a stream entry."""
    ms, _, number = text.partition("-")
    if not (len(text) <= 40 and ms.isdecimal() and number.isdecimal() and text.isascii()):
        return False
    return max(int(ms), int(number)) < 2**63


def unknown_place() -> WrongField:
    return WrongField("after", "is not the `next` of a page of this list")
