"""Events as they are kept, and as a client gets them.

A history is kept small: `<id> <attempt> <status> <worker> <step and more>`, and `~` where there is none. The id tells
the number and the time, the key of the list tells the job; so the event that a client gets can be made of it, always
with the same bytes. Two events are not kept at all, the record tells them: `queued`, and `started` until the attempt
says more.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tailrace.streams.messages import Failure, Record, Step, encode
from tailrace.streams.options import LAST_MS
from tailrace.streams.states import State, Status


class Event(Struct, frozen=True, omit_defaults=True):
    """One entry of a job's history, as a client gets it."""

    id: str
    seq: int
    time: str
    jobId: str  # the seeds' clients read these names
    attempt: int | None
    status: Status
    step: Step | None
    workerId: str | None
    of: int | None = None
    message: str | None = None
    data: Any = None
    result: Any = None
    error: Failure | None = None
    reason: str | None = None
    retryAt: str | None = None
    until: str | None = None
    expiresAt: str | None = None
    by: str | None = None
    awaits: str | None = msgspec.field(default=None, name="for")  # `children` or `signal`
    pending: int | None = None  # children that have not ended
    signal: str | None = None


class End(Struct):
    """The additional fields of a job's last event; passed on as they were written."""

    result: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    by: str | None = None
    reason: str | None = None
    expiresAt: str | None = None  # of one that was not started in time


decode_event = msgspec.json.Decoder(Event).decode
read_end = msgspec.json.Decoder(End).decode

_STEP = len('{"step":')
_NO_ID = b"1-0000000000000000 "


def event_body(attempt: int, status: str, worker: str, step: Step | None = None, **more: Any) -> bytes:
    """A stored event without its id, which the store puts in front when it is written."""
    return _head(attempt, status, worker) + encode({"step": step, **more})[_STEP:]


def members(**said: Any) -> bytes:
    """Additional JSON members of an event, with a leading comma, for a transition; None is left out."""
    told = {name: value for name, value in said.items() if value is not None}
    return b"," + encode(told)[1:-1] if told else b""


def read_members(said: bytes | str) -> dict[str, Any]:
    """The members that `members` has written, by name."""
    text = said if isinstance(said, str) else said.decode()
    return msgspec.json.decode("{" + text.removeprefix(",") + "}", type=dict[str, Any])


@lru_cache(maxsize=1024)
def _head(attempt: int, status: str, worker: str) -> bytes:
    """A worker writes the same few of these for all its jobs."""
    return f"{attempt} {status} {worker} ".encode()


def expand(job_id: str, kept: bytes) -> bytes:
    """The event a client gets. An entry that Tailrace did not write stays as it is; the fold decides about it."""
    parts = kept.split(b" ", 4)
    if len(parts) != 5:
        return kept
    event_id, attempt, status, worker, rest = parts
    number, _, stamp = event_id.partition(b"-")
    if not stamp.isdigit() or len(stamp) < 16:
        return kept
    return b'{"id":"%b","seq":%b,"time":"%b.%bZ","jobId":"%b","attempt":%b,"status":"%b","workerId":%b,"step":%b' % (
        event_id,
        number,
        _second(stamp[:10]),
        stamp[10:13],
        job_id.encode(),
        b"null" if attempt == b"~" else attempt,
        status,
        b"null" if worker == b"~" else b'"%b"' % worker,
        rest,
    )


@lru_cache(maxsize=1024)
def _second(digits: bytes) -> bytes:
    return datetime.fromtimestamp(int(digits), UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()


def read_event(job_id: str, kept: bytes) -> Event | None:
    """An event as it is kept; None when it cannot be read."""
    try:
        return decode_event(expand(job_id, kept))
    except ValueError:
        return None


def read_body(job_id: str, body: bytes) -> Event:
    """The event that a body makes, before the store gives it an id and a time."""
    return decode_event(expand(job_id, _NO_ID + body))


class _End(Struct):
    result: Any = None


_decode_end = msgspec.json.Decoder(_End).decode


def read_result(body: bytes) -> Any:
    """The result in the body of a completion. A parent reads thousands."""
    return _decode_end(b'{"step":' + body.split(b" ", 3)[3]).result


def queued_event(record: Record) -> bytes:
    """Event 1 of every job: made of its record, so that a waiting job costs nothing more."""
    # Jobs accepted in the same millisecond still have their own ids: the entry's running number tells them apart.
    ms, number = entry_order(record.accepted or record.entry)
    return expand(record.id, f"1-{ms}{number:03} ~ {Status.QUEUED} ~ null}}".encode())


def history_of(record: Record, kept: Sequence[bytes], first: int, *, more: bool = False) -> list[bytes]:
    """A job's events from number `first` on, given what is kept of them; negative: counted from the end.

    `more`: the log goes on behind them.
    """
    events = [expand(record.id, entry) for entry in kept]
    if 0 <= first <= 1:
        events.insert(0, queued_event(record))
    if record.state is State.RUNNING and record.started and not more:
        began = record.started.encode() + b" "
        if int(record.started.partition("-")[0]) >= first and not any(entry.startswith(began) for entry in kept):
            body = event_body(record.attempt, Status.STARTED, record.owner or "~")
            events.append(expand(record.id, began + body))
    return events


def are_in_order(kept: Sequence[bytes], first: int) -> bool:
    """Whether each of these stands at its own number, the first of them at `first`."""
    return all(entry.startswith(b"%d-" % number) for number, entry in enumerate(kept, max(2, first)))


def progress_of(attempt: int, events: Sequence[bytes]) -> float | None:
    """The progress of an attempt in per cent, by the last of its own reports among these events."""
    for raw in reversed(events):
        try:
            event = decode_event(raw)
        except ValueError:
            continue
        if event.status is Status.PROGRESS and event.step is not None:
            return percent(event.step, event.of) if event.attempt == attempt else None
    return None


def percent(step: Step, of: int | None) -> float | None:
    """How far a numbered step is, 0 to 100; without `of`, the step itself is the percentage."""
    if isinstance(step, str):
        return None
    share = step if of is None else 100 * step / of if of > 0 else 100
    return round(min(100.0, max(0.0, share)), 1)


def iso(ms: float) -> str:
    """A time of the store's clock as clients see it; a time outside the calendar becomes its first or last moment."""
    seconds, rest = divmod(int(min(max(ms, 0), LAST_MS)), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def entry_order(entry: str) -> tuple[int, int]:
    """An entry's id as a value that sorts."""
    ms, _, number = entry.partition("-")
    return int(ms), int(number)
