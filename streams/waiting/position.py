"""The position of a waiting job and what holds it up, as the transition `line` answers."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tailrace.streams.options import marks_of


class Running(Struct, frozen=True):
    """A job that has an owner."""

    key: str
    limit: str | None = None


class Place(Struct, frozen=True):
    """How many stand before a job."""

    before: int
    exact: bool  # False: at least this many
    nearest: str | None  # the last of them, if it is known


class Line(Struct, frozen=True):
    """A job and its platform at one moment: the gates that hold it up, as `claim` asks them. Times are the store's."""

    now_ms: int
    paused: bytes | None
    held_until_ms: float | None
    rate_until_ms: float | None
    runs: int  # how many have an owner
    running: tuple[Running, ...]  # some of those; all, unless there are more than a hundred
    place: Place | None  # None: it waits beside the line
    limit_full: bool  # as many of its limit key run as may
    limit_until_ms: float | None  # when the rate of its limit key opens
    limit_before: int  # jobs that wait for the same limit key before it
    order_before: str | None  # the job of its order that it waits for
    order_runs: bool  # whether that one runs
    suspect: bool  # it waits for a process that runs nothing else
    unfinished: str | None  # in strict order: the job that nothing starts before
    slots_full: bool  # as many run as may
    lane_full: bool  # the same with those of other platforms of its lane
    processes_full: bool  # each consumer runs as many as it may
    lane: dict[str, int]  # what runs on other platforms of its lane


def to_line(answer: Sequence[Any]) -> Line:
    """Decode the answer of `line`. Raises ValueError or OverflowError for a malformed number in the store."""
    (now_ms, paused, held_until_ms, rate_until_ms, runs, suspect), place, limit, order, slots, running, lane = answer
    limit_full, limit_until_ms, limit_before = limit or (None, None, None)
    before, order_runs, unfinished = order
    slots_full, lane_full, processes_full = (gate is not None for gate in slots)
    return Line(
        now_ms=int(now_ms),
        paused=paused,
        held_until_ms=number(held_until_ms),
        rate_until_ms=number(rate_until_ms),
        runs=int(runs),
        running=tuple(
            sorted(
                (
                    Running(text(key), marks_of(text(marks)).get("limit"))
                    for key, marks in zip(*[iter(running)] * 2, strict=True)
                ),
                key=lambda job: job.key,
            )
        ),
        place=Place(int(place[0]), place[1] == b"1", text(place[2]) if place[2] else None) if place else None,
        limit_full=limit_full is not None,
        limit_until_ms=number(limit_until_ms),
        limit_before=int(limit_before or 0),
        order_before=text(before) if before else None,
        order_runs=order_runs is not None,
        suspect=suspect is not None,
        unfinished=text(unfinished) if unfinished else None,
        slots_full=slots_full,
        lane_full=lane_full,
        processes_full=processes_full,
        lane={text(name): int(runs) for name, runs in zip(*[iter(lane)] * 2, strict=True)},
    )


def number(raw: bytes | None) -> float | None:
    return None if raw is None else float(raw)


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")
