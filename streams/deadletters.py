"""Dead letters: failed jobs that are still kept, found by kind and error, tried again or dropped many at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from streams.connection import Store
from streams.errors import WrongField
from streams.keys import PlatformKeys, check_word
from streams.listing import Listed, Page, list_places, read_listed, read_places
from streams.states import State
from streams.transitions import BrokenOperation

PIECE = 200  # jobs read, and acted on, in one trip
LOOKED_AT = 2000  # for one page of a list with a filter
ERROR_LENGTH = 200


class Match(Struct, frozen=True):
    """Which dead letters are meant: those of this kind, those with this type of error; None: any."""

    kind: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_word(self.kind, "kind")
        if self.error is not None and not 1 <= len(self.error) <= ERROR_LENGTH:
            raise WrongField("error", f"the type of an error, 1 to {ERROR_LENGTH} characters")

    def fits(self, job: Listed) -> bool:
        if self.kind is not None and job.record.kind != self.kind:
            return False
        return self.error is None or (job.error is not None and job.error.type == self.error)


class Swept(Struct, frozen=True):
    """What a sweep did, and how many that match it left for another."""

    done: int
    left: int


async def list_dead(store: Store, keys: PlatformKeys, match: Match, limit: int, after: str = "") -> Page:
    """One page of those that match, newest first. It may be short, even empty, and still not be the last."""
    found: list[Listed] = []
    for _ in range(0, LOOKED_AT, PIECE):
        count = min(PIECE, limit) if match == Match() else PIECE
        page = await list_places(store, keys, State.FAILED, keys["ended_failed"], count, after, newest_first=True)
        for job in page.jobs:
            if match.fits(job):
                found.append(job)
                if len(found) == limit:
                    return Page(tuple(found), f"{job.record.ended_ms}.{job.record.key}")
        if page.next is None:
            return Page(tuple(found), None)
        after = page.next
    return Page(tuple(found), after)


async def find_dead(store: Store, keys: PlatformKeys, match: Match) -> AsyncIterator[list[Listed]]:
    """All that match and are dead by now, oldest first, piece by piece: what fails meanwhile is not among them."""
    newest = await store.command("ZRANGE", keys["ended_failed"], -1, -1, "WITHSCORES")
    after = ""
    while newest:
        places = await read_places(store, keys["ended_failed"], PIECE, after)
        meant = [place.member for place in places if place.score <= float(newest[1])]
        jobs = await read_listed(store, keys, meant, errors=match.error is not None)
        yield [job for job in jobs if job and job.record.state is State.FAILED and match.fits(job)]
        if len(meant) < PIECE:
            return
        after = places[-1].cursor


async def count_dead(store: Store, keys: PlatformKeys, match: Match) -> int:
    return sum([len(piece) async for piece in find_dead(store, keys, match)])


async def sweep_dead(
    store: Store, keys: PlatformKeys, match: Match, act: Callable[[str], Awaitable[str]], limit: int | None = None
) -> Swept:
    """Do something to each that matches, by its key, oldest first. It counts when the answer is `ok`."""
    done = left = 0
    async for piece in find_dead(store, keys, match):
        room = len(piece) if limit is None else min(len(piece), limit - done)
        answers = await asyncio.gather(*(attempt(act, job.record.key) for job in piece[:room]))
        done += answers.count("ok")
        left += len(piece) - room
        if left and match == Match():  # all are meant: no need to look at each
            return Swept(done, await store.command("ZCARD", keys["ended_failed"]))
    return Swept(done, left)


async def attempt(act: Callable[[str], Awaitable[str]], key: str) -> str:
    try:
        return await act(key)
    except BrokenOperation:  # a job whose keys were spoilt by hand holds up no other
        return "broken"
