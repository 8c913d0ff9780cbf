"""Checks flows: jobs that await something that will never come, and news between platforms that is not delivered."""

from collections.abc import AsyncIterator, Iterable, Sequence

from msgspec import Struct

from tailrace.ops.doctor.finding import Finding, advice, wrong
from tailrace.streams.errors import JobNotFound
from tailrace.streams.flows.relay import Relay, arriving, failure, read_end_of
from tailrace.streams.keys import PlatformKeys, await_alarm, split_id
from tailrace.streams.messages import Record
from tailrace.streams.operations import call
from tailrace.streams.options import marks_of
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.replies import read_record
from tailrace.streams.states import ENDED, State
from tailrace.streams.store.connection import ServerRefusal, Store
from tailrace.streams.store.server import read_clock
from tailrace.streams.transitions import Transitions

REPAIR = f"{PROGRAM} doctor --repair"
LATE_SECONDS = 10  # consumers deliver at once, and their hearts look every second
PAGE = 25  # children in one look: the end of each may have a quarter of a megabyte


class LostChild(Struct, frozen=True):
    """A child whose end will never reach its waiting parent."""

    child: str
    ended: bool  # else it is not kept at all


async def check_awaiting(store: Store, keys: PlatformKeys, records: Iterable[Record]) -> list[Finding]:
    """The findings about jobs that await something and would never resume."""
    findings = []
    for record in records:
        if record.state is not State.AWAITING:
            continue
        listed, alarm = await store.commands(
            [("ZSCORE", keys["awaiting"], record.key), ("ZSCORE", keys["alarms"], await_alarm(record.key))]
        )
        why = await in_vain(store, keys, record)
        if listed is None:
            why = "it awaits something, but no list names it"
        elif record.until_ms and alarm is None:
            why = "it awaits something until a time, but no alarm is set for it"
        if why:
            findings.append(wrong(keys.platform, why, REPAIR, job=record.key))
    return findings


async def in_vain(store: Store, keys: PlatformKeys, record: Record) -> str | None:
    """Why the job would never resume; None: what it awaits may still come."""
    what, _, rest = (record.awaits or "").partition(" ")
    if what == "signal":
        name = rest.partition(" ")[0]
        there = await store.command("HEXISTS", keys.signals(record.key), name)
        return f"it awaits the signal {name}, which is there" if there else None
    wanted = [child async for page in wanted_children(store, keys, record) for child in page]
    if len(wanted) != record.wanted:
        return f"it awaits the ends of {record.wanted} children, but {len(wanted)} have not ended"
    if lost := await lost_children(store, keys, wanted):
        fate = "has ended, and its end did not arrive" if lost[0].ended else "is not kept"
        return f"it awaits {len(lost)} children whose ends never come, such as {lost[0].child}, which {fate}"
    return None


async def wanted_children(store: Store, keys: PlatformKeys, record: Record) -> AsyncIterator[list[str]]:
    """The children that the join of a job waits for, page by page."""
    cursor, mark = b"0", f"!{record.join}".encode()
    while True:
        cursor, flat = await store.command("HSCAN", keys.children(record.key), cursor, "COUNT", PAGE)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        yield [child.decode(errors="replace") for child, news in pairs if news == mark]
        if cursor == b"0":
            return


async def lost_children(store: Store, keys: PlatformKeys, children: Sequence[str]) -> list[LostChild]:
    """The children that neither live nor have news on the way."""
    gone = await gone_children(store, children)
    under_way: set[str] = set()
    for platform in {keys.platform, *(split_id(lost.child)[0] for lost in gone)} if gone else ():
        under_way |= {child async for child in on_the_way(store, store.keys(platform))}
    # Looked at again: one that a relay submitted between the two reads is in no outbox, and lives.
    return await gone_children(store, [lost.child for lost in gone if lost.child not in under_way])


async def gone_children(store: Store, children: Sequence[str]) -> list[LostChild]:
    """The children that have ended or are not kept."""
    states = await store.commands(
        ("HGET", store.keys(platform).record(key), "state") for platform, key in map(split_id, children)
    )
    return [
        LostChild(child, ended=state is not None)
        for child, state in zip(children, states, strict=True)
        if state is None or state.decode(errors="replace") in ENDED
    ]


async def on_the_way(store: Store, keys: PlatformKeys) -> AsyncIterator[str]:
    """The children that entries in the outbox of a platform are about."""
    relay, cursor = Relay(Transitions(store)), ""
    while part := await relay.read(keys, cursor):
        for parcel in part:
            yield parcel.child
        cursor = part[-1].id


async def check_parents(store: Store, keys: PlatformKeys, records: Iterable[Record]) -> list[Finding]:
    """Live jobs whose parents are gone: they run and end as any other, but nothing awaits their ends."""
    parents = {record.key: parent for record in records if (parent := marks_of(record.marks).get("parent"))}
    there = await store.commands(
        ("EXISTS", store.keys(platform).record(key)) for platform, key in map(split_id, parents.values())
    )
    return [
        advice(
            keys.platform,
            f"its parent {parent} is gone: nothing awaits its end",
            REPAIR,
            job=key,
            remedy="detach",
        )
        for (key, parent), exists in zip(parents.items(), there, strict=True)
        if not exists
    ]


async def check_outbox(store: Store, keys: PlatformKeys) -> list[Finding]:
    """News for other platforms that are not delivered: no consumer of this one lives, or the other one refuses them."""
    oldest = await store.command("XRANGE", keys["outbox"], "-", "+", "COUNT", 1)
    if not oldest or await read_clock(store, keys) - int(oldest[0][0].partition(b"-")[0]) < LATE_SECONDS * 1000:
        return []
    says = f"its outbox holds news that were not delivered for over {LATE_SECONDS} s"
    return [wrong(keys.platform, says, REPAIR, remedy="relay")]


async def deliver(store: Store, keys: PlatformKeys) -> bool:
    """Whether the outbox of a platform holds nothing late any more."""
    await Relay(Transitions(store)).deliver(keys)
    return not await check_outbox(store, keys)


async def detach(store: Store, keys: PlatformKeys, key: str) -> bool:
    """Whether a job has no parent any more that is gone."""
    try:
        parent = marks_of((await read_record(store, keys, key)).marks).get("parent")
    except (JobNotFound, ServerRefusal, ValueError):
        return False
    if parent is None:
        return True
    platform, parent_key = split_id(parent)
    if await store.command("EXISTS", store.keys(platform).record(parent_key)):
        return True
    await Transitions(store).word(keys, call.detach(keys, key=key, parent=parent))
    return True


async def bring_lost(store: Store, keys: PlatformKeys, key: str) -> int:
    """Bring a job that awaits children the ends of those that are lost; how many there were."""
    transitions = Transitions(store)
    try:
        record = await read_record(store, keys, key)
    except (JobNotFound, ServerRefusal, ValueError):
        return 0
    if record.state is not State.AWAITING or record.awaits != "join":
        return 0
    wanted = [child async for page in wanted_children(store, keys, record) for child in page]
    lost = await lost_children(store, keys, wanted)
    for each in lost:
        platform, key = split_id(each.child)
        event = failure("ChildLost", "it is not kept any more, and its end did not arrive")
        if each.ended:
            event = await read_end_of(transitions, store.keys(platform), key)
        await transitions.word(keys, arriving(keys, record.id, each.child, event))
    return len(lost)
