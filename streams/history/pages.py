"""A job's visible history: whole, a page of it, or its end; each costs what it shows, not what came before.

The fold needs to know all that was shown before an event only if the log was written into by hand. Entry n of an
untouched log is event n + 2 (`queued` is not stored), and its id begins with that number. So where every entry that was
read stands at its own number, and the fold goes on behind the event before them, the rest need not be read. Where one
does not, the log is read whole.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from msgspec import Struct

from tailrace.streams.errors import JobNotFound, WrongField
from tailrace.streams.history.fold import Fold, Head, read_head
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Record
from tailrace.streams.replies import LogPart, read_job, read_logs, read_record
from tailrace.streams.states import State, Status
from tailrace.streams.store.connection import Store

FEW = 2  # events that tell how most jobs are doing
PIECE = 250  # entries in one read: a few milliseconds of this process, and then others have their turn
PIECE_BYTES = 256 * 1024  # of entries that are larger than most

ENDS = {State.COMPLETED: Status.COMPLETED, State.FAILED: Status.FAILED, State.CANCELLED: Status.CANCELLED}

_ID = re.compile(r"([0-9]{1,18})-[0-9]{1,24}")


class HistoryPage(Struct, frozen=True):
    """Some visible events, as they are sent."""

    record: Record
    events: list[bytes]


def number_of(event_id: str) -> int | None:
    """The number of the event with this id; None: no event has such an id."""
    match = _ID.fullmatch(event_id)
    return int(match[1]) or None if match else None


class Replaced(Exception):
    """The job was removed and another one was accepted under its id while its log was read."""


class Histories:
    """Reads what is to be shown of a job. Raises `JobNotFound`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def whole(self, keys: PlatformKeys, key: str) -> HistoryPage:
        while True:
            fold, shown = Fold(keys.id(key)), list[bytes]()
            with suppress(Replaced):
                async for part in self._parts(keys, key, 1, compare=False):
                    shown += [raw for raw in part.events if (head := read_head(raw)) and fold.accept(head)]
                return HistoryPage(part.record, shown)

    async def page(
        self, keys: PlatformKeys, key: str, after: str, limit: int | None, *, current: bool = False
    ) -> HistoryPage:
        """At most `limit` events behind the one with the id `after`; `current`: only those of the current attempt.

        Raises `WrongField` when the history has no such event.
        """
        with suppress(Replaced):
            if page := await self._short(keys, key, after, limit, current=current):
                return page
        page = await self.whole(keys, key)
        shown = [(head, raw) for raw in page.events if (head := read_head(raw))]
        if after:
            places = [place for place, (head, _) in enumerate(shown, 1) if head.id == after]
            if not places:
                raise WrongField("after", f"job {keys.id(key)} has no event with this id")
            shown = shown[places[0] :]
        chosen = [raw for head, raw in shown if not current or is_current(page.record, head)]
        return HistoryPage(page.record, chosen[:limit])

    async def _short(
        self, keys: PlatformKeys, key: str, after: str, limit: int | None, *, current: bool
    ) -> HistoryPage | None:
        """The page from its own part of the log; None when the whole log must be read."""
        number = number_of(after) if after else 0
        if number is None:
            return None
        behind = number  # the event that the page begins behind; 0: it begins with the first
        if current:
            started = (await read_record(self._store, keys, key)).started
            behind = max(number, (number_of(started or "") or 1) - 1)
            if behind > number > 0 and not await self._short(keys, key, after, 1, current=False):
                return None
        fold, shown, begun = Fold(keys.id(key)), list[bytes](), not behind
        async for part in self._parts(keys, key, max(1, behind), limit):
            if not part.in_order:
                return None
            for raw in part.events:
                head = read_head(raw)
                if head is None or (not begun and behind == number and head.id != after):
                    return None
                if not begun:
                    fold.begin_after(head)
                    begun = True
                elif fold.accept(head) and not (current and not is_current(part.record, head)):
                    shown.append(raw)
            if limit and len(shown) >= limit:
                break
        return HistoryPage(part.record, shown[:limit]) if begun else None

    async def end(self, keys: PlatformKeys, key: str) -> HistoryPage:
        """The last events of a job: of one that has ended, at least its end and how far its last attempt was."""
        count = FEW
        while True:
            record, events = await read_job(self._store, keys, key, first=-count)
            if not record.state.ended:
                return HistoryPage(record, events)
            if not is_end(record, events):  # reopened meanwhile, or written into by hand
                return await self.whole(keys, key)
            if len(events) < count or any(tells_progress(record, raw) for raw in events):
                return HistoryPage(record, events)
            count *= 8

    async def _parts(
        self, keys: PlatformKeys, key: str, first: int, limit: int | None = None, *, compare: bool = True
    ) -> AsyncIterator[LogPart]:
        """The log from event `first` on, piece by piece, each with a turn for others before it."""
        count = min(PIECE, limit + 1) if limit else PIECE
        job = None
        while True:
            (reply,) = await read_logs(self._store, [(keys, key, first)], count)
            part = reply.part(compare=compare)
            if part is None:
                raise JobNotFound(keys.id(key))
            job = job or (part.record.accepted or part.record.entry)
            if job != (part.record.accepted or part.record.entry):
                raise Replaced
            yield part
            if not part.more:
                return
            first = max(2, first) + count
            size = sum(map(len, reply.kept)) // count + 1
            count = max(1, min(PIECE, PIECE_BYTES // size))


def is_current(record: Record, head: Head) -> bool:
    """Whether an event is one of the attempt that counts."""
    return head.attempt == (record.attempt or None)


def is_end(record: Record, events: Sequence[bytes]) -> bool:
    """Whether the last of these is the event that the job ended with, as its record has it."""
    head = read_head(events[-1]) if events else None
    if head is None or head.status is not ENDS[record.state]:
        return False
    return head.id.partition("-")[2][:13] == str(record.ended_ms)


def tells_progress(record: Record, raw: bytes) -> bool:
    """Whether this event shows the progress of the last attempt, so that no earlier one has to be read."""
    head = read_head(raw)
    return head is not None and (head.status in {Status.STARTED, Status.PROGRESS} or not is_current(record, head))
