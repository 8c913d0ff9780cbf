"""Raw replies into structs, and the reads that change nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tailrace.streams.errors import JobNotFound
from tailrace.streams.flows.envelope import args_within
from tailrace.streams.history.events import are_in_order, expand, history_of
from tailrace.streams.keys import RESERVED, PlatformKeys, expiry_alarm, join_id
from tailrace.streams.messages import BeatReply, Claim, Errors, Hint, OfType, Record, Sweep
from tailrace.streams.states import State
from tailrace.streams.store.connection import Command, Store

FEED_COUNT = 200  # entries of one stream in one read

NUMBERS = frozenset(
    {"seq", "attempt", "failures", "crashes", "earlier", "ended_ms", "first_ms", "rest_ms", "step_bytes", "until_ms"}
    | {"wanted", "join_fails", "join_failed"}
)


def pairs(flat: Sequence[bytes]) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in flat]
    return dict(zip(words[::2], words[1::2], strict=True))


async def scan_hashes(store: Store, names: Sequence[str], count: int) -> dict[str, dict[bytes, bytes]]:
    """All that some hashes hold, in pieces of about `count` fields: one of any size costs no long call."""
    found: dict[str, dict[bytes, bytes]] = {name: {} for name in names}
    cursors = dict.fromkeys(names, b"0")
    while cursors:
        commands = [("HSCAN", name, cursor, "COUNT", count) for name, cursor in cursors.items()]
        replies = zip(list(cursors), await store.commands(commands), strict=True)
        for name, (cursors[name], flat) in replies:
            found[name].update(zip(flat[::2], flat[1::2], strict=True))
        cursors = {name: cursor for name, cursor in cursors.items() if cursor != b"0"}
    return found


def to_record(keys: PlatformKeys, key: str, flat: Sequence[bytes]) -> Record | None:
    """A record as HGETALL tells it; None when there is no such job."""
    fields: dict[str, Any] = dict(pairs(flat))
    if "state" not in fields or "entry" not in fields:  # not there, or only a part of it is left
        return None
    for name in NUMBERS & fields.keys():
        fields[name] = int(fields[name])
    return Record(
        platform=keys.platform,
        key=key,
        state=State(fields["state"]),
        accepted_ms=int(fields.get("accepted", fields["entry"]).partition("-")[0]),
        **{n: fields[n] for n in Record.__struct_fields__ if n in fields and n != "state"},
    )


def to_claims(answer: Sequence[bytes]) -> list[Claim]:
    """The jobs of a `claim` answer, which begins with a time and a word."""
    return [to_claim(*answer[i : i + 5]) for i in range(2, len(answer), 5)]


def to_claim(nonce: bytes, key: bytes, kind: bytes, args: bytes, past: bytes) -> Claim:
    if b" " not in past:  # the first attempt at a job without options
        waited = int(past) / 1000 if past else None
        return Claim(nonce.decode(), key.decode(), 1, kind.decode(), args, waited_seconds=waited)
    number, failures, age, past, options = past.split(b" ", 4)
    return Claim(
        nonce.decode(),
        key.decode(),
        int(number),
        kind.decode(),
        args,
        options,
        int(failures),
        int(age) / 1000,
        int(past) / 1000 if past else None,
    )


def to_beat(answer: Sequence[Any]) -> BeatReply:
    lost, stray, stop = ([word.decode() for word in words] for words in answer[:3])
    return BeatReply(lost, list(zip(stray[::2], stray[1::2], strict=True)), stop, int(answer[3]))


def to_sweep(answer: Sequence[Any]) -> Sweep:
    return Sweep(answer[0].decode(), int(answer[1]), [key.decode(errors="replace") for key in answer[2:]])


def to_steps(answer: Any) -> tuple[str, dict[str, bytes]] | None:
    """Decode the answer of `recall`: where the next part begins, if there is one, and steps. None when it refuses."""
    if answer == b"lost":
        return None
    cursor, *words = answer
    return cursor.decode(), {name.decode(): value for name, value in zip(words[::2], words[1::2], strict=True)}


def to_hints(
    platform: str, entries: Iterable[Sequence[Any]], wanted: Callable[[str], bool] = lambda _: True
) -> list[Hint]:
    """The events of wanted jobs in some feed entries: each holds `key seq` and the event as it is kept, in turn."""
    hints = []
    for _, fields in entries:
        for name, event in zip(fields[::2], fields[1::2], strict=True):
            key, _, seq = name.decode(errors="replace").partition(" ")
            # The number may have been changed by hand.
            if wanted(key) and seq.isascii() and seq.isdigit() and len(seq) < 16:
                hints.append(Hint(key, int(seq), expand(join_id(platform, key), event) if event else None))
    return hints


async def which(store: Store, platforms: Iterable[PlatformKeys], names: Sequence[str]) -> set[str]:
    """The platforms that have any of these keys: far cheaper than a script that finds nothing to do."""
    asked = list(platforms)
    found = await store.commands([("EXISTS", *(keys[name] for name in names)) for keys in asked])
    return {keys.platform for keys, count in zip(asked, found, strict=True) if count}


async def read_record(store: Store, keys: PlatformKeys, key: str) -> Record:
    record = to_record(keys, key, await store.command("HGETALL", keys.record(key)))
    if record is None:
        raise JobNotFound(keys.id(key))
    return record


async def read_job(store: Store, keys: PlatformKeys, key: str, first: int = 1) -> tuple[Record, list[bytes]]:
    """A job's record and its events from number `first` on, in one trip; a negative `first` counts from the end."""
    jobs = await read_jobs(store, [(keys, key, first)])
    if jobs[0] is None:
        raise JobNotFound(keys.id(key))
    return jobs[0]


async def read_jobs(
    store: Store, wanted: Sequence[tuple[PlatformKeys, str, int]]
) -> list[tuple[Record, list[bytes]] | None]:
    """Records and events of many jobs in one trip; None for a job that is not kept."""
    pieces = [(keys, key, first if first < 0 else max(0, first - 2), -1) for keys, key, first in wanted]
    jobs: list[tuple[Record, list[bytes]] | None] = []
    for (keys, key, first), (fields, kept) in zip(wanted, await _read_pieces(store, pieces), strict=True):
        record = to_record(keys, key, fields)
        jobs.append((record, history_of(record, kept, first)) if record else None)
    return jobs


async def _read_pieces(store: Store, wanted: Iterable[tuple[PlatformKeys, str, int, int]]) -> list[tuple[Any, Any]]:
    """The records of many jobs, and their logs from one place to another, in one trip."""
    commands: list[Command] = []
    for keys, key, start, stop in wanted:
        commands += [("HGETALL", keys.record(key)), ("LRANGE", keys.log(key), start, stop)]
    replies = await store.commands(commands)
    return list(zip(replies[::2], replies[1::2], strict=True))


class LogPart(NamedTuple):
    """Some events of a job, as a client gets them, from a given number on."""

    record: Record
    events: list[bytes]
    in_order: bool  # each of them stands at its own number: the log before them was not written into by hand
    more: bool  # the log goes on behind them


class LogReply(NamedTuple):
    """A part of a log as the store answered it. Decoding it into events costs CPU, so that happens later."""

    keys: PlatformKeys
    key: str
    first: int
    most: int  # entries that were asked for
    fields: Sequence[bytes]
    kept: Sequence[bytes]

    def part(self, *, compare: bool = True) -> LogPart | None:
        """None when the job is not kept. `compare`: whether the order is of interest."""
        record = to_record(self.keys, self.key, self.fields)
        if record is None:
            return None
        more = len(self.kept) == self.most
        events = history_of(record, self.kept, self.first, more=more)
        return LogPart(record, events, compare and are_in_order(self.kept, self.first), more)


async def read_logs(store: Store, wanted: Sequence[tuple[PlatformKeys, str, int]], count: int) -> list[LogReply]:
    """Parts of the logs of many jobs in one trip: from number `first` of each, at most `count` entries."""
    starts = [max(0, first - 2) for _, _, first in wanted]  # `queued` is not in the log
    pieces = [(keys, key, start, start + count - 1) for (keys, key, _), start in zip(wanted, starts, strict=True)]
    return [
        LogReply(keys, key, first, count, fields, kept)
        for (keys, key, first), (fields, kept) in zip(wanted, await _read_pieces(store, pieces), strict=True)
    ]


async def read_args(store: Store, keys: PlatformKeys, record: Record) -> bytes | None:
    """The args of a job that has not ended; afterwards only those too large for the line are still there."""
    entries, kept = await store.commands(
        [("XRANGE", keys.jobs(record.band), record.entry, record.entry), ("GET", keys.args(record.key))]
    )
    flat: list[bytes] = entries[0][1] if entries else []
    inline: bytes | None = dict(zip(flat[::2], flat[1::2], strict=True)).get(b"args", kept)
    return args_within(record.options, inline) if inline and record.options else inline


class JobTimes(NamedTuple):
    """The times at which something happens to a job by itself, in milliseconds of the store's clock."""

    run_at_ms: float | None
    expires_ms: float | None


async def read_times(store: Store, keys: PlatformKeys, key: str) -> JobTimes:
    scores = await store.commands([("ZSCORE", keys["due"], key), ("ZSCORE", keys["alarms"], expiry_alarm(key))])
    return JobTimes(*(None if score is None else float(score) for score in scores))


async def is_kept(store: Store, keys: PlatformKeys, key: str) -> bool:
    """Whether the store knows this job."""
    return bool(await store.command("EXISTS", keys.record(key)))


async def read_step_names(store: Store, keys: PlatformKeys, key: str) -> list[str]:
    """The names of the steps that the handler saved, without the entries of the library itself."""
    names = [name.decode(errors="replace") for name in await store.command("HKEYS", keys.steps(key))]
    return [name for name in names if not name.startswith(RESERVED)]


async def read_step(store: Store, keys: PlatformKeys, key: str, name: str) -> bytes | None:
    """The value of a saved step, as JSON."""
    value: bytes | None = await store.command("HGET", keys.steps(key), name.encode(errors="replace"))
    return value


async def hear_bell(store: Store, bells: Sequence[str], seconds: float) -> str | None:
    """Wait until the store calls one of these bells, and reset it. None when no call came in time."""
    heard = await store.command("BLPOP", *bells, seconds)
    return heard[0].decode() if heard else None


async def reach_bells(store: Store, bells: Sequence[str]) -> None:
    """Raises `StoreError` unless the server of some bells answers."""
    await store.command("EXISTS", bells[0])


async def read_feed(store: Store, cursors: Mapping[str, str], block_ms: int) -> dict[str, list[Any]]:
    """Wait for news on some streams: stream -> its new entries. Empty when nothing came in time."""
    reply = await store.command("XREAD", "COUNT", FEED_COUNT, "BLOCK", block_ms, "STREAMS", *cursors, *cursors.values())
    return {name.decode(): entries for name, entries in reply or ()}


class FeedEnd(NamedTuple):
    """The end of a stream now, and how many of its entries were removed."""

    cursor: str = "0-0"  # the id of the newest entry there ever was
    added: int = 0  # entries there ever were
    trimmed: int = 0  # those of them that are not kept: the oldest


async def read_feed_ends(store: Store, streams: Iterable[str]) -> dict[str, FeedEnd]:
    """The ends of some streams. One that begins meanwhile has its end before its first entry."""
    names = list(streams)
    there = await store.commands([("EXISTS", name) for name in names])
    begun = [name for name, exists in zip(names, there, strict=True) if exists]
    ends = dict.fromkeys(names, FeedEnd())
    replies = await store.commands([("XINFO", "STREAM", name) for name in begun])
    for name, flat in zip(begun, replies, strict=True):
        told = dict(zip(flat[::2], flat[1::2], strict=True))
        added = told[b"entries-added"]
        ends[name] = FeedEnd(told[b"last-generated-id"].decode(), added, added - told[b"length"])
    return ends


def to_errors(answer: Any) -> Errors:
    failed, *flat = answer
    groups = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return Errors(
        int(failed),
        tuple(OfType(name.decode(errors="replace"), int(n), key.decode(errors="replace")) for name, n, key in groups),
    )
