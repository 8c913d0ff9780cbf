"""Failed jobs that are still kept: grouped by error, found by kind and error, retried or dropped many at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys, check_word
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.listing import JobListing, Listed, ScoredMember, read_listed, read_places, to_place

PIECE = 200  # jobs read, and acted on, in one trip
LOOKED_AT = 2000  # for one page of a list with a filter
ERROR_LENGTH = 200
TYPES = 100  # of errors that are told apart on one platform
AT_ONCE = 4  # platforms in one call: a few milliseconds of the server's time at most


class Match(Struct, frozen=True):
    """Which failed jobs are meant: of this kind, with this type of error, ended by this time; None: any."""

    kind: str | None = None
    error: str | None = None
    ended_by_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_word(self.kind, "kind")
        if self.error is not None and not 1 <= len(self.error) <= ERROR_LENGTH:
            raise WrongField("error", f"must be the type of an error, of 1 to {ERROR_LENGTH} characters")

    def fits(self, job: Listed | None) -> bool:
        """Whether a job that was found by its error and time is failed and of this kind."""
        return job is not None and job.record.state is State.FAILED and self.kind in {None, job.record.kind}


class Group(Struct, frozen=True):
    """The failed jobs of a platform with one type of error; None: those whose type the store does not count."""

    platform: str
    error: str | None
    count: int
    newest: Listed | None


class Swept(Struct, frozen=True):
    """How many jobs a sweep acted on, and how many matching ones are left."""

    done: int
    left: int


async def group_dead(store: Store, transitions: Transitions, platforms: Iterable[str]) -> list[Group]:
    """Every failed job that is kept, counted by the store by platform and type of error.

    The cost depends on the number of types, not of jobs. A group without a type has what is left: jobs that failed
    before the store counted types, and those of more than `TYPES` types.
    """
    groups: list[Group] = []
    all_keys = [store.keys(platform) for platform in platforms]
    counts = await store.commands([("ZCARD", keys["ended_failed"]) for keys in all_keys])
    having = [keys for keys, count in zip(all_keys, counts, strict=True) if count]
    for start in range(0, len(having), AT_ONCE):
        some = having[start : start + AT_ONCE]
        for keys, found in zip(some, await transitions.errors(some, TYPES), strict=True):
            if isinstance(found, BrokenOperation) or not found.failed:
                continue
            newest = await read_listed(store, keys, [each.newest for each in found.types], errors=True)
            counted = [
                Group(keys.platform, each.type, each.count, job) for each, job in zip(found.types, newest, strict=True)
            ]
            rest = found.failed - sum(each.count for each in found.types)
            groups += [*counted, Group(keys.platform, None, rest, None)] if rest > 0 else counted
    return groups


async def list_dead(store: Store, keys: PlatformKeys, match: Match, limit: int, after: str = "") -> JobListing:
    """One page of those that match, newest first. It may be short, even empty, and still not be the last."""
    found: list[Listed] = []
    for _ in range(0, LOOKED_AT, PIECE):
        count = PIECE if match.kind else min(PIECE, limit)
        places = await read_failed(store, keys, match, count, after, newest_first=True)
        jobs = await read_listed(store, keys, [place.member for place in places], errors=True)
        for place, job in zip(places, jobs, strict=True):
            if job and match.fits(job):
                found.append(job)
                if len(found) == limit:
                    return JobListing(tuple(found), place.cursor)
        if len(places) < count:
            return JobListing(tuple(found), None)
        after = places[-1].cursor
    return JobListing(tuple(found), after)


async def find_dead(store: Store, keys: PlatformKeys, match: Match) -> AsyncIterator[list[Listed]]:
    """All that match and have failed by now, oldest first, piece by piece: what fails meanwhile is not among them."""
    newest = await read_failed(store, keys, match, 1, newest_first=True)
    last_ms = newest[0].score if match.ended_by_ms is None and newest else match.ended_by_ms or 0
    after = ""
    while newest:
        places = await read_failed(store, keys, match, PIECE, after)
        meant = [place.member for place in places if place.score <= last_ms]
        jobs = await read_listed(store, keys, meant)
        yield [job for job in jobs if job and match.fits(job)]
        if len(meant) < PIECE:
            return
        after = places[-1].cursor


async def read_failed(
    store: Store, keys: PlatformKeys, match: Match, count: int, after: str = "", *, newest_first: bool = False
) -> list[ScoredMember]:
    """Up to `count` failed jobs with the error of `match`, behind a place, by the time of their ends."""
    if match.error is None:
        return await read_places(store, keys["ended_failed"], count, after, newest_first=newest_first)
    first, last = range_of(match.error)
    if after:
        behind = to_place(after)
        bound = f"({match.error}\t{behind.score:.0f}\t{behind.member}"
        first, last = (first, bound) if newest_first else (bound, last)
    order = (last, first, "BYLEX", "REV") if newest_first else (first, last, "BYLEX")
    members = await store.command("ZRANGE", keys["ended_errors"], *order, "LIMIT", 0, count)
    parts = [member.decode(errors="replace").split("\t") for member in members]
    return [ScoredMember(float(ended_ms), key) for _, ended_ms, key in parts]


def range_of(error: str, ended_by_ms: int | None = None) -> tuple[str, str]:
    """The range in `ended_errors` of jobs with this type of error; see `error_of` in ends.lua."""
    return f"[{error}\t", f"({error}\n" if ended_by_ms is None else f"({error}\t{ended_by_ms + 1}"


async def count_dead(store: Store, keys: PlatformKeys, match: Match) -> int:
    """How many match; without a kind the store knows, and no job is read."""
    if match.kind is not None:
        return sum([len(piece) async for piece in find_dead(store, keys, match)])
    if match.error is not None:
        first, last = range_of(match.error, match.ended_by_ms)
        return int(await store.command("ZLEXCOUNT", keys["ended_errors"], first, last))
    until = "+inf" if match.ended_by_ms is None else match.ended_by_ms
    return int(await store.command("ZCOUNT", keys["ended_failed"], "-inf", until))


async def sweep_dead(
    store: Store, keys: PlatformKeys, match: Match, act: Callable[[str], Awaitable[str]], limit: int | None = None
) -> Swept:
    """Act on each job that matches, oldest first; it counts when `act` answers `ok`."""
    done = tried = 0
    async for piece in find_dead(store, keys, match):
        chosen = piece if limit is None else piece[: limit - tried]
        answers = await asyncio.gather(*(attempt(act, job.record.key) for job in chosen))
        done += answers.count("ok")
        tried += len(chosen)
        if tried == limit:
            return Swept(done, await count_dead(store, keys, match))
    return Swept(done, 0)


async def attempt(act: Callable[[str], Awaitable[str]], key: str) -> str:
    try:
        return await act(key)
    except BrokenOperation:  # a job whose keys are corrupt holds up no other
        return "broken"
