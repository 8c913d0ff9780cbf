"""The relay: delivers what the outbox of a platform holds for other platforms.

Each entry is delivered by a transition that may be repeated, and removed after the answer; so a relay may die at any
time, and two at once do no harm. An entry that cannot be delivered now stays for the next look.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tailrace.streams.errors import StoreFull, WrongField
from tailrace.streams.history.events import entry_order, members
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.operations import Operation, broken, call, checked
from tailrace.streams.process.logs import get_logger
from tailrace.streams.store.connection import ServerRefusal
from tailrace.streams.store.server import read_clock
from tailrace.streams.transitions import ARGS_ROOM, Transitions

log = get_logger()

PART = 100  # entries in one look
CANCEL_PAGE = 25  # children in one look: the end of each may have a quarter of a megabyte
LATE_SECONDS = 30  # far below the shortest time for which an ended job is kept
BATCH = 25  # transitions in one call: each may end a job and wake another
ARRIVALS = 50  # the same of ends, each of which may wake a parent
ENDED = {b"completed", b"failed", b"cancelled"}
REOPENED = b" reopened "
NEEDED = {  # fields of each kind of entry
    b"submit": {b"parent", b"child", b"band", b"kind", b"args", b"fingerprint", b"extras"},
    b"arrive": {b"parent", b"child", b"event"},
    b"cancel": {b"parent"},
}

T = TypeVar("T")


class Parcel(NamedTuple):
    """An entry of an outbox."""

    id: str
    action: bytes  # `submit`, `arrive` or `cancel`
    parent: str
    child: str
    fields: dict[bytes, bytes]


class Relay:
    """Delivers the outboxes of one store."""

    def __init__(self, transitions: Transitions) -> None:
        self._transitions = transitions

    async def deliver(self, keys: PlatformKeys, up_to: str | None = None) -> int:
        """Deliver what the outbox holds, if given only `up_to` an entry; how many entries were delivered.

        What that puts into other outboxes is delivered as well: a child that is cancelled may have children. Raises a
        `StoreError` when the store does not answer; the rest is still there then.
        """
        count = 0
        reached = {keys.platform: up_to}
        while reached:
            platform, last = reached.popitem()
            count += await self._empty(self._transitions.store.keys(platform), last, reached)
        return count

    async def _empty(self, keys: PlatformKeys, up_to: str | None, reached: dict[str, str | None]) -> int:
        """One walk through one outbox; notes the platforms whose outboxes may have got something by it."""
        part, done, count, held_back = await self.read(keys), list[str](), 0, False
        while part:
            wanted = [parcel for parcel in part if up_to is None or entry_order(parcel.id) <= entry_order(up_to)]
            cursor = part[-1].id if len(wanted) == len(part) else None
            # While this part is delivered, the one before it is removed and the next one read.
            delivered, (removed, part) = await asyncio.gather(
                self._deliver(keys, wanted, reached, cancel=not held_back), self._turn_page(keys, done, cursor)
            )
            done, held_back, count = delivered, held_back or len(delivered) < len(wanted), count + removed
        return count + (await self._turn_page(keys, done, None))[0]

    async def read(self, keys: PlatformKeys, cursor: str = "", most: int = PART) -> list[Parcel]:
        """A part of the outbox of a platform, behind an entry."""
        found = await self._transitions.one(keys, call.outbox(cursor=cursor, most=most))
        return [_to_parcel(entry.decode(), flat) for entry, flat in found]

    async def _turn_page(self, keys: PlatformKeys, done: Sequence[str], cursor: str | None) -> tuple[int, list[Parcel]]:
        """Remove entries, and read the part behind the cursor, if there is one: how many were there, and the part."""
        operations = [call.delivered(entries=" ".join(done))] if done else []
        if cursor is not None:
            operations.append(call.outbox(cursor=cursor, most=PART))
        if not operations:
            return 0, []
        answers = [checked(answer) for answer in await self._transitions.run([(keys, operations)])]
        removed = int(answers[0]) if done else 0
        found = answers[-1] if cursor is not None else []
        return removed, [_to_parcel(entry.decode(), flat) for entry, flat in found]

    async def _deliver(
        self, keys: PlatformKeys, parcels: Sequence[Parcel], reached: dict[str, str | None], *, cancel: bool
    ) -> list[str]:
        """The entries that were delivered, or never can be. Children are cancelled once all others were submitted."""
        submits = [parcel for parcel in parcels if parcel.action == b"submit"]
        done = await self._ended_long_ago(keys, submits)
        done += await self.carry([parcel for parcel in parcels if parcel.id not in done])
        for parcel in parcels:
            if parcel.action == b"arrive" and REOPENED in parcel.fields[b"event"][:40]:
                reached.setdefault(split_id(parcel.parent)[0], None)
        submitted = {parcel.id for parcel in submits} <= set(done)
        for parcel in parcels:
            if parcel.action == b"cancel" and cancel and submitted:
                await self._cancel_children(keys, parcel.parent, reached)
                done.append(parcel.id)
            elif not parcel.action:
                log.warning("outbox_entry_unknown", platform=keys.platform, entry=parcel.id)
                done.append(parcel.id)
        return done

    async def carry(self, parcels: Sequence[Parcel]) -> list[str]:
        """Submit jobs and bring ends; the entries that were delivered.

        A caller that knows what it has just put into an outbox need not read it. It removes the entries.
        """
        done = await self._submit([parcel for parcel in parcels if parcel.action == b"submit"])
        return done + await self._bring([parcel for parcel in parcels if parcel.action == b"arrive"])

    async def remove(self, keys: PlatformKeys, done: Sequence[str]) -> None:
        """Remove entries of an outbox that were delivered."""
        await self._turn_page(keys, done, None)

    async def _submit(self, parcels: Sequence[Parcel]) -> list[str]:
        done: list[str] = []
        ends: list[Parcel] = []
        for platform, group in self._by_platform(parcels, lambda parcel: parcel.child):
            try:
                answers = await self._run(platform, [_submitting(platform, each) for each in group])
            except StoreFull as error:  # the next look tries again
                log.warning("outbox_held", platform=platform.platform, error=str(error), entries=len(group))
                continue
            for parcel, answer in zip(group, answers, strict=True):
                done.append(parcel.id)
                if end := await self._known_end(platform, parcel, answer):
                    ends.append(parcel._replace(fields={b"event": end}))
        await self._bring(ends)
        return done

    async def _ended_long_ago(self, keys: PlatformKeys, parcels: Sequence[Parcel]) -> list[str]:
        """The late entries of children whose ends have arrived. Such a child may not be kept any more: to submit it
        again would run it twice."""
        store = self._transitions.store
        if not parcels:
            return []
        before_ms = await read_clock(store, keys) - LATE_SECONDS * 1000
        late = [parcel for parcel in parcels if entry_order(parcel.id)[0] < before_ms]
        try:
            known = await store.commands(
                ("HGET", keys.children(split_id(parcel.parent)[1]), parcel.child) for parcel in late
            )
        except ServerRefusal:  # a parent with corrupt keys: its children are submitted all the same
            return []
        return [parcel.id for parcel, news in zip(late, known, strict=True) if news and b" " in news]

    async def _known_end(self, platform: PlatformKeys, parcel: Parcel, answer: Any) -> bytes | None:
        """The end of a child that will bring none itself: it has ended before, or can never be accepted."""
        if b"parent=" not in parcel.fields[b"extras"]:
            return None
        if error := broken(answer):
            return failure("ChildRefused", f"it was not accepted: {error}")
        if answer[0] == b"conflict":
            return failure("ChildRefused", "another job has its id")
        if answer[0] in {b"duplicate", b"replaced"}:
            return failure("ChildRefused", f"job {platform.id(answer[1].decode())} has its dedupe key")
        if answer[0] == b"again" and answer[1] in ENDED:
            return await read_end_of(self._transitions, platform, split_id(parcel.child)[1])
        return None

    async def _bring(self, parcels: Sequence[Parcel]) -> list[str]:
        """Deliver ends to parents; returns the delivered entries. A parent with corrupt keys keeps its entry."""
        done: list[str] = []
        for platform, group in self._by_platform(parcels, lambda parcel: parcel.parent):
            operations = [arriving(platform, each.parent, each.child, each.fields[b"event"]) for each in group]
            answers = await self._run(platform, operations, ARRIVALS)
            for parcel, answer in zip(group, answers, strict=True):
                if error := broken(answer):
                    log.warning("outbox_entry_refused", job=parcel.parent, entry=parcel.id, error=str(error))
                else:
                    done.append(parcel.id)
        return done

    async def _cancel_children(self, keys: PlatformKeys, parent: str, reached: dict[str, str | None]) -> None:
        more = members(reason=f"its parent {parent} was cancelled")
        async for page in pending_children(self._transitions, keys, split_id(parent)[1]):
            for platform, group in self._by_platform(page, lambda child: child):
                operations = [call.cancel(platform, key=split_id(child)[1], more=more) for child in group]
                for child, answer in zip(group, await self._run(platform, operations), strict=True):
                    if error := broken(answer):
                        log.warning("child_not_cancelled", job=child, error=str(error))
                reached.setdefault(platform.platform, None)

    async def _run(self, keys: PlatformKeys, operations: Sequence[Operation], batch: int = BATCH) -> list[Any]:
        parts = (operations[start : start + batch] for start in range(0, len(operations), batch))
        answers = await asyncio.gather(*(self._transitions.run([(keys, part)]) for part in parts))
        return [answer for part in answers for answer in part]

    def _by_platform(self, things: Iterable[T], job_id: Callable[[T], str]) -> list[tuple[PlatformKeys, list[T]]]:
        """Things grouped by the platform of the job that they concern."""
        groups: dict[str, list[T]] = {}
        for thing in things:
            groups.setdefault(split_id(job_id(thing))[0], []).append(thing)
        return [(self._transitions.store.keys(platform), group) for platform, group in groups.items()]


async def pending_children(transitions: Transitions, keys: PlatformKeys, key: str) -> AsyncIterator[list[str]]:
    """The children of a job that have not ended, page by page; one may come twice."""
    cursor = b"0"
    while True:
        cursor, flat = await transitions.store.command("HSCAN", keys.children(key), cursor, "COUNT", CANCEL_PAGE)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        yield [child.decode(errors="replace") for child, news in pairs if news == b"" or news.startswith(b"!")]
        if cursor == b"0":
            return


async def read_end_of(transitions: Transitions, keys: PlatformKeys, key: str) -> bytes:
    """The end of an ended job, as its parent keeps it."""
    last: bytes | None = await transitions.store.command("LINDEX", keys.log(key), -1)
    _, _, event = (last or b"").partition(b" ")
    return event or failure("ChildLost", "it ended before, and its end is not kept")


def arriving(keys: PlatformKeys, parent: str, child: str, event: bytes) -> Operation:
    return call.arrive(keys, key=split_id(parent)[1], child=child, event=event)


def failure(error_type: str, message: str) -> bytes:
    """The end of a child as the store itself writes it."""
    return b"~ failed ~ null" + members(error={"type": error_type, "message": message}) + b"}"


def _submitting(keys: PlatformKeys, parcel: Parcel) -> Operation:
    said = parcel.fields
    return call.submit(
        keys,
        key=split_id(parcel.child)[1],
        band=said[b"band"],
        kind=said[b"kind"],
        payload=said[b"args"],
        fingerprint=said[b"fingerprint"],
        room=ARGS_ROOM,
        extras=said[b"extras"],
    )


def _to_parcel(entry: str, flat: Sequence[bytes]) -> Parcel:
    """An entry; its action is empty if Tailrace did not write it."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    action = fields.get(b"do", b"")
    parent, child = (fields.get(name, b"").decode(errors="replace") for name in (b"parent", b"child"))
    try:
        split_id(parent)
        split_id(child if action != b"cancel" else parent)
        readable = NEEDED[action] <= fields.keys()
    except (WrongField, KeyError):
        readable = False
    return Parcel(entry, action if readable else b"", parent, child, fields)
