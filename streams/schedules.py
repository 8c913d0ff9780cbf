"""Schedules: their definitions, the times of their ticks, and which missed ticks are made up for.

Time is the store's, in milliseconds. Ticks of `every_seconds` lie on a grid that began with 1970: every process
computes the same ones, and a schedule that is written again loses none.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Meta, Struct

from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PlatformKeys, check_platform, check_word
from tailrace.streams.options import NO_OPTIONS, Options
from tailrace.streams.replies import scan_hashes
from tailrace.streams.store.connection import Store
from tailrace.streams.store.server import to_ms

Missed = Literal["skip", "once", "all"]

LATE_MS = 60_000  # a tick that is at most this late is late, not missed
LEAST_SECONDS = 1.0
MOST_SECONDS = 366 * 86_400.0
CRON_LENGTH = 200
READ_COUNT = 250  # schedules in one read

NAME_FORM = r"[A-Za-z0-9_-]{1,48}"  # with `-` and a tick it is still the key of a job
ScheduleName = Annotated[str, Meta(extra_json_schema={"pattern": f"^{NAME_FORM}$"})]

_NAME = re.compile(NAME_FORM)
_encode = msgspec.json.Encoder(order="sorted").encode


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Submits a job of one kind at each of its ticks."""

    name: str
    platform: str
    kind: str
    args: Any = {}  # decoded JSON
    options: Options = NO_OPTIONS
    cron: str | None = None  # five fields, or six with seconds first
    every_seconds: float | None = None
    tz: str = "UTC"  # in which `cron` is read: a name of the IANA database
    missed: Missed = (
        "skip"  # what becomes of ticks while no consumer ran: none, the last, or each of them is made up for
    )
    paused: bool = False
    in_file: bool = False  # it comes from a configuration file: `apply` names it when the file no longer has it

    def __post_init__(self) -> None:
        check_name(self.name)
        check_platform(self.platform)
        check_word(self.kind, "kind")
        if self.missed not in get_args(Missed):
            raise WrongField("missed", f"must be one of {', '.join(get_args(Missed))}", self.missed)
        if (self.cron is None) == (self.every_seconds is None):
            raise WrongField("cron", "set exactly one of cron and every_seconds")
        zone = zone_of(self.tz)
        if self.every_seconds is not None:
            if not LEAST_SECONDS <= self.every_seconds <= MOST_SECONDS:
                raise WrongField("every_seconds", "must be from 1 to 31622400 (a year)", self.every_seconds)
            if zone is not UTC:
                raise WrongField("tz", "is for cron; every_seconds counts the same everywhere")
        elif self.cron is not None:
            check_cron(self.cron, self.tz)
        for name in ("run_at", "expires_at"):
            if getattr(self.options, name) is not None:
                raise WrongField(f"options.{name}", "is one point in time; a schedule has many")

    def same_times(self, other: "Schedule") -> bool:
        return (self.cron, self.every_seconds, self.tz) == (other.cron, other.every_seconds, other.tz)


class Planned(Struct, frozen=True):
    """A schedule as it is kept, with its next tick; None while it is paused."""

    schedule: Schedule
    next_ms: int | None


class Move(Struct, frozen=True):
    """A step of a due schedule: from this tick to its next one, firing one between, or none."""

    tick_ms: int
    fires_ms: int | None
    next_ms: int | None


class Due(Struct, frozen=True):
    """A stored schedule whose tick has come."""

    name: str
    tick_ms: int
    definition: bytes


class Agenda(Struct, frozen=True):
    """The due schedules of one platform at one moment."""

    now_ms: int
    next_ms: int | None  # the first tick that is not among those due
    due: list[Due]


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise WrongField("name", "must have 1 to 48 characters of A-Z a-z 0-9 _ -", name)
    return name


def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also on machines without a time zone database
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise WrongField("tz", "must be a time zone such as Europe/Berlin", name) from None


@lru_cache(maxsize=1024)
def check_cron(cron: str, tz: str) -> None:
    if len(cron) > CRON_LENGTH:
        raise WrongField("cron", f"has {len(cron)} characters; at most {CRON_LENGTH} are allowed")
    try:
        next(CronSim(cron, datetime(2026, 1, 1, tzinfo=zone_of(tz))))
    except StopIteration:
        raise WrongField("cron", f"{cron!r} names no time that ever comes") from None
    except (CronSimError, AssertionError, TypeError, ValueError, OverflowError) as error:
        why = f" ({error})" if isinstance(error, CronSimError) else ""
        raise WrongField(
            "cron",
            f"{cron!r} is not a cron expression{why}; expected five fields, such as 0 3 * * *, or six, seconds first",
        ) from None


def next_tick(schedule: Schedule, after_ms: int) -> int | None:
    """The first tick after a time; None when there is none any more."""
    if schedule.every_seconds is not None:
        period = round(schedule.every_seconds * 1000)
        return (after_ms // period + 1) * period
    # In the hour that comes twice the times of day go back: what is not after is not next.
    found = (ms for ms in _ticks(schedule, after_ms) if ms > after_ms)
    return next(found, None)


def last_tick(schedule: Schedule, since_ms: int, now_ms: int) -> int:
    """The last tick up to now, given that there was one at `since_ms`."""
    if schedule.every_seconds is not None:
        period = round(schedule.every_seconds * 1000)
        return max(since_ms, now_ms // period * period)
    last = next((ms for ms in _ticks(schedule, now_ms + 1000, reverse=True) if ms <= now_ms), since_ms)
    last = max(last, since_ms)
    while (following := next_tick(schedule, last)) is not None and following <= now_ms:
        last = following
    return last


def _ticks(schedule: Schedule, from_ms: int, *, reverse: bool = False) -> Iterator[int]:
    assert schedule.cron is not None
    start = datetime.fromtimestamp(from_ms // 1000, zone_of(schedule.tz))
    for at in CronSim(schedule.cron, start, reverse=reverse):
        yield int(at.timestamp()) * 1000


def moves(schedule: Schedule, tick_ms: int, now_ms: int, most: int) -> Sequence[Move]:
    """The steps of a schedule that is due; with `all`, at most `most` at a time."""
    if schedule.paused:
        return [Move(tick_ms, None, None)]
    if schedule.missed == "all":
        made: list[Move] = []
        tick: int | None = tick_ms
        while tick is not None and tick <= now_ms and len(made) < most:
            following = next_tick(schedule, tick)
            made.append(Move(tick, tick, following))
            tick = following
        return made
    last, following = tick_ms, next_tick(schedule, tick_ms)
    if following is not None and following <= now_ms:
        last = last_tick(schedule, following, now_ms)
        following = next_tick(schedule, last)
    wanted = schedule.missed == "once" or now_ms - last <= LATE_MS
    return [Move(tick_ms, last if wanted else None, following)]


def encode_schedule(schedule: Schedule) -> bytes:
    """Encode a schedule: the same bytes for the same definition."""
    return _encode(schedule)


def decode_schedule(definition: bytes) -> Schedule:
    """Raises `WrongField` or a `ValueError` when Tailrace did not write it."""
    return msgspec.json.decode(definition, type=Schedule)


def known_from(definition: bytes | None) -> Schedule | None:
    """Decode a definition; None when there is none, or when another program wrote it."""
    try:
        return decode_schedule(definition) if definition else None
    except (WrongField, ValueError):
        return None


def mark_of(definition: bytes | None) -> str:
    """A digest of a definition; empty when there is none."""
    return hashlib.sha1(definition, usedforsecurity=False).hexdigest() if definition else ""


def to_agenda(answer: Sequence[bytes]) -> Agenda:
    due = [
        Due(answer[i].decode(errors="replace"), int(float(answer[i + 1])), answer[i + 2])
        for i in range(2, len(answer), 3)
    ]
    return Agenda(int(answer[0]), int(float(answer[1])) if answer[1] else None, due)


async def read_schedule(store: Store, keys: PlatformKeys, name: str) -> tuple[int, bytes | None, int | None]:
    """The store's time, a schedule's definition and its next tick; None where there is none."""
    clock, definition, tick = await store.commands(
        [("TIME",), ("HGET", keys["schedules"], name), ("ZSCORE", keys["ticks"], name)]
    )
    return to_ms(clock), definition, int(float(tick)) if tick else None


async def read_schedules(store: Store, platforms: Sequence[PlatformKeys]) -> list[Planned]:
    """Every schedule of these platforms, by name; an entry that Tailrace did not write is passed over."""
    definitions = await scan_hashes(store, [keys["schedules"] for keys in platforms], READ_COUNT)
    known = [(keys["ticks"], *each) for keys in platforms for each in sorted(definitions[keys["schedules"]].items())]
    scores = await store.commands([("ZSCORE", ticks, name) for ticks, name, _ in known])
    found = []
    for (_, _, definition), score in zip(known, scores, strict=True):
        if schedule := known_from(definition):
            found.append(Planned(schedule, None if score is None else int(float(score))))
    return found
