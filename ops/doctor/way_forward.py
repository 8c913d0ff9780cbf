"""Checks that no live job is stuck, by queues, leases and records.

Everything is read without holding anything up, so a job may change between two reads of it. A suspicion therefore
counts only if a second look, a moment later, finds the same.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Sequence

import anyio
from msgspec import Struct

from tailrace.ops.doctor.finding import Finding, advice, wrong
from tailrace.ops.doctor.flows import check_awaiting, check_outbox, check_parents
from tailrace.ops.doctor.repairs import tidy
from tailrace.streams.history.events import entry_order
from tailrace.streams.keys import BANDS, GROUP, PlatformKeys, job_of_record
from tailrace.streams.leases import scan_leases, to_lease
from tailrace.streams.messages import Lease, Record
from tailrace.streams.options import marks_of
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.replies import scan_hashes, to_record
from tailrace.streams.states import ENDED, State
from tailrace.streams.store.connection import Command, Store
from tailrace.streams.store.node import Node
from tailrace.streams.views.overview import take_overviews

PAGE = 500
FRONTS = (*(f"front_{band}" for band in BANDS), "suspects")
ENTRY = re.compile(r"\d+-\d+")
SECOND_LOOK_SECONDS = 0.5


async def find_records(store: Store, nodes: Iterable[Node]) -> AsyncIterator[tuple[int, dict[str, list[str]]]]:
    """The keys of all jobs on these nodes, page by page: how many keys were seen, and jobs by platform."""
    seen = 0
    for node in nodes:
        cursor = None
        while cursor != b"0":
            cursor, names = await node.command(
                "SCAN", cursor or b"0", "MATCH", store.keyspace.records, "COUNT", PAGE, "TYPE", "hash"
            )
            seen += PAGE
            jobs: dict[str, list[str]] = {}
            for name in names:
                platform, key = job_of_record(name.decode(errors="replace"))
                jobs.setdefault(platform, []).append(key)
            yield seen, jobs


async def check_jobs(store: Store, keys: PlatformKeys, jobs: Sequence[str]) -> tuple[list[Finding], list[Record]]:
    """The findings about these jobs, and which of them have not ended."""
    findings, live = [], []
    replies = await store.commands([("HGETALL", keys.record(job)) for job in jobs])
    for job, flat in zip(jobs, replies, strict=True):
        try:
            record = to_record(keys, job, flat)
            if record is None and flat:
                raise LookupError("only a part of it is left")
            if record and (record.band not in BANDS or not ENTRY.fullmatch(record.entry)):
                raise ValueError(f"it stands in the line {record.band} at {record.entry}")
        except (LookupError, TypeError, ValueError) as error:
            says = f"its record cannot be read: {error!r}"
            findings.append(wrong(keys.platform, says, MEND, job=job, remedy=f"tidy record {job}"))
        else:
            if record and not record.state.ended:
                live.append(record)
    delivered = await last_delivered(store, keys)
    commands: list[Command] = []
    for record in live:
        line, entry = keys.jobs(record.band), record.entry
        commands += [
            ("XRANGE", line, entry, entry),
            ("ZSCORE", keys.front(record.band), record.key),
            ("ZSCORE", keys.front(BANDS[0]), record.key),  # where a job that goes before all stands
            ("ZSCORE", keys["suspects"], record.key),  # where one on its last chance does
            ("ZSCORE", keys["due"], record.key),
            ("HGET", keys["leases"], record.nonce or ""),
            ("EXISTS", keys.args(record.key)),
        ]
    answers = await store.commands(commands)
    for record, place in zip(live, range(0, len(answers), 7), strict=True):
        entry, *fronts, due, lease, args = answers[place : place + 7]
        where = Where(
            in_line=bool(entry),
            handed_out=record.band in delivered and entry_order(record.entry) <= delivered[record.band],
            in_front=any(front is not None for front in fronts),
            due=due is not None,
            leased=lease is not None,
            args_kept=bool(args),
        )
        why = obstacle(record.state, where)
        if why == HANDED_OUT and record.marks:
            why = await why_parked(store, keys, record)
        if why:
            findings.append(wrong(keys.platform, why, MEND, job=record.key))
        elif not where.in_line and not where.args_kept:
            findings.append(advice(keys.platform, LAST_ATTEMPT, job=record.key))
    findings += await check_awaiting(store, keys, live)
    findings += await check_parents(store, keys, live)
    return findings, live


class Where(Struct, frozen=True):
    """The places a live job may stand at."""

    in_line: bool
    handed_out: bool = False
    in_front: bool = False
    due: bool = False
    leased: bool = False
    args_kept: bool = False  # beside its entry


MEND = f"{PROGRAM} doctor --repair"  # consumers mend it too, within minutes
HANDED_OUT = "its entry was handed out, but no consumer runs it"
ENTRY_GONE = "its entry is gone from the queue"
ARGS_GONE = f"{ENTRY_GONE}, and its args with it: it can only end failed (EntryLost); submit it again"
LAST_ATTEMPT = f"{ENTRY_GONE}, and its args with it: if the attempt that runs does not complete it, it fails"


def obstacle(state: State, where: Where) -> str | None:
    """Why a job cannot go on by itself, or None."""
    if state is State.RUNNING and not where.leased:
        return "it runs, but no consumer holds its lease: none will take it over"
    if not where.in_line and state is not State.RUNNING:  # a running job can end without it
        return ENTRY_GONE if where.args_kept else ARGS_GONE
    if state is State.DELAYED and not where.due:
        return "it is delayed, but no time is set for it: nothing will wake it"
    if state is State.WAITING and where.handed_out and not where.in_front:
        return HANDED_OUT
    return None


async def why_parked(store: Store, keys: PlatformKeys, record: Record) -> str | None:
    """A job beside the queue waits for its order or for its limit key. None: another job will bring it back."""
    marks = marks_of(record.marks)
    if limit := marks.get("limit"):
        parked, alarm, count = await store.commands(
            [
                ("ZSCORE", keys.parked(limit), record.key),
                ("ZSCORE", keys["alarms"], f"*{limit}"),
                ("HGET", keys["limits"], limit),
            ]
        )
        if parked is not None:
            fine = alarm is not None or count is not None  # whether those counted do run is looked at apart
            return None if fine else f"it waits for its limit key {limit}, but no job holds it"
    if order := marks.get("order"):
        holder, first = await store.commands([("HGET", keys["orders"], order), ("ZRANGE", keys.order(order), 0, 0)])
        before = [key.decode(errors="replace") for key in (holder, *first) if key is not None]
        if any(is_live(state) and key != record.key for key, state, _ in await read_states(store, keys, before)):
            return None
        return f"it waits for its turn in the order {order}, but no job is before it"
    return HANDED_OUT


def is_live(state: str | None) -> bool:
    return state is not None and state not in ENDED


async def check_places(store: Store, keys: PlatformKeys) -> list[Finding]:
    """Leases without an attempt, places at the front without a job that waits, entries of jobs that are not kept."""
    leases = {nonce: text async for page in scan_leases(store, keys) for nonce, text in page.items()}
    findings = []
    held = []
    for nonce, text in leases.items():
        try:
            held.append(to_lease(nonce, text))
        except ValueError:
            says = f"the lease {nonce} cannot be read: it only takes up room"
            findings.append(wrong(keys.platform, says, MEND, remedy=f"tidy lease {nonce}"))
    records = await read_states(store, keys, [lease.key for lease in held])
    for lease, (_, state, current) in zip(held, records, strict=True):
        if state != State.RUNNING or current != lease.nonce:
            says = "a lease is held for it, but no attempt runs under it"
            findings.append(wrong(keys.platform, says, MEND, job=lease.key, remedy=f"tidy lease {lease.nonce}"))
    fronts = [job for name in FRONTS async for page in members(store, keys[name]) for job in page]
    for job, state, _ in await read_states(store, keys, fronts):
        if state != State.WAITING:
            says = "it is at the front of the queue, but does not wait"
            findings.append(wrong(keys.platform, says, MEND, job=job, remedy=f"tidy front {job}"))
    for band in BANDS:
        findings += await check_entries(store, keys, band)
    findings += await check_outbox(store, keys)
    return findings + await check_gates(store, keys, held)


async def check_gates(store: Store, keys: PlatformKeys, leases: Sequence[Lease]) -> list[Finding]:
    """Counts of limit keys that no leases stand for, and orders held by jobs that do not run."""
    hashes = await scan_hashes(store, [keys["limits"], keys["orders"]], PAGE)
    counted, orders = ({name.decode(): value.decode() for name, value in found.items()} for found in hashes.values())
    running = Counter(marks_of(lease.marks).get("limit") for lease in leases)
    findings = []
    for label in sorted({*counted, *(label for label in running if label)}):
        says = counted.get(label, "0")
        if says != str(running[label]):
            why = f"limit key {label} counts {says} running, but {running[label]} run"
            findings.append(wrong(keys.platform, why, MEND, remedy=f"tidy limit {label}"))
    for label, (job, state, _) in zip(orders, await read_states(store, keys, orders.values()), strict=True):
        if state != State.RUNNING:
            why = f"it holds the order {label}, but does not run"
            findings.append(wrong(keys.platform, why, MEND, job=job, remedy=f"tidy order {label}"))
    return findings


async def check_flow(store: Store, platforms: Iterable[str]) -> list[Finding]:
    """Notes about platforms that start nothing because a person or a handler wanted it so."""
    notes = []
    for each in await take_overviews(store, platforms):
        if each.paused:
            since = f" since {each.paused_since}" if each.paused_since else ""
            says = f"is paused{f' by {each.paused_by}' if each.paused_by else ''}{since}: nothing starts"
            notes.append(advice(each.platform, says, f"{PROGRAM} resume {each.platform}"))
        if each.held_seconds:
            says = f"a handler met a rate limit: nothing starts for {each.held_seconds:.1f} s"
            notes.append(advice(each.platform, says))
    return notes


async def check_entries(store: Store, keys: PlatformKeys, band: str) -> list[Finding]:
    findings: list[Finding] = []
    start = "-"
    while entries := await store.command("XRANGE", keys.jobs(band), start, "+", "COUNT", PAGE):
        jobs = [values[1].decode(errors="replace") for _, values in entries]
        states = await read_states(store, keys, jobs)
        for (entry, _), (job, state, _) in zip(entries, states, strict=True):
            if state is None:
                says = f"it is in the queue {band}, but no such job is kept"
                remedy = f"tidy entry {band} {entry.decode()}"
                findings.append(wrong(keys.platform, says, MEND, job=job, remedy=remedy))
        start = "(" + entries[-1][0].decode()
    return findings


async def members(store: Store, key: str) -> AsyncIterator[list[str]]:
    """The members of a sorted set, page by page."""
    start = 0
    while page := await store.command("ZRANGE", key, start, start + PAGE - 1):
        yield [member.decode(errors="replace") for member in page]
        start += PAGE


async def read_states(
    store: Store, keys: PlatformKeys, jobs: Collection[str]
) -> list[tuple[str, str | None, str | None]]:
    """Each job with its state and nonce; None: there is none."""
    replies = await store.commands([("HMGET", keys.record(job), "state", "nonce") for job in jobs])
    texts = [[None if value is None else value.decode(errors="replace") for value in reply] for reply in replies]
    return [(job, state, nonce) for job, (state, nonce) in zip(jobs, texts, strict=True)]


async def last_delivered(store: Store, keys: PlatformKeys) -> dict[str, tuple[int, int]]:
    """How far each queue was handed out; one without its group is left out: all of it will be handed out again."""
    there = await store.commands([("EXISTS", keys.jobs(band)) for band in BANDS])
    bands = [band for band, exists in zip(BANDS, there, strict=True) if exists]
    replies = await store.commands([("XINFO", "GROUPS", keys.jobs(band)) for band in bands])
    delivered = {}
    for band, groups in zip(bands, replies, strict=True):
        for flat in groups:
            group = dict(zip(flat[::2], flat[1::2], strict=True))
            if group[b"name"] == GROUP.encode():
                delivered[band] = entry_order(group[b"last-delivered-id"].decode())
    return delivered


async def confirm(store: Store, suspicions: Sequence[Finding]) -> list[Finding]:
    """The suspicions that a second look confirms."""
    if not suspicions:
        return []
    await anyio.sleep(SECOND_LOOK_SECONDS)
    again: set[Finding] = set()
    for platform in {finding.about for finding in suspicions}:
        keys = store.keys(platform)
        again.update(await check_places(store, keys))
        jobs = sorted({finding.job for finding in suspicions if finding.about == platform and finding.job})
        for start in range(0, len(jobs), PAGE):
            again.update((await check_jobs(store, keys, jobs[start : start + PAGE]))[0])
    return [
        finding
        for finding in suspicions
        if (await tidy(store, finding, act=False) == "wrong" if finding.remedy.startswith("tidy") else finding in again)
    ]
