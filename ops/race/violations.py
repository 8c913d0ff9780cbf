"""Finds what is wrong in the events of one job, as a client gets them; pure."""

from collections.abc import Iterable, Sequence
from typing import Any

Event = dict[str, Any]

ENDS = frozenset({"completed", "failed", "cancelled"})
WORK = frozenset({"started", "progress", "completed"})  # events that only an attempt that holds its job may write


def violations(events: Sequence[Event], *, finished: bool = True) -> list[str]:
    """The violations in a history, as sentences. `finished`: the job is known to have ended."""
    found = [*gaps(events), *second_lives(events, finished), *interleavings(events), *repetitions(events)]
    if not events or events[0]["status"] != "queued":
        found.append("the history does not begin with queued")
    return found


def gaps(events: Sequence[Event]) -> Iterable[str]:
    for place, event in enumerate(events, start=1):
        if event["seq"] != place:
            yield f"event {place} has the number {event['seq']}"
            return


def second_lives(events: Sequence[Event], finished: bool) -> Iterable[str]:
    """Each life of a job has one end; only a person opens another."""
    ended = None
    for event in events:
        if event["status"] == "reopened":
            ended = None
        elif ended:
            yield f"{name(event)} comes after the end, {ended}"
        elif event["status"] in ENDS:
            ended = name(event)
    if finished and not ended:
        yield "the history has no end"


def interleavings(events: Sequence[Event]) -> Iterable[str]:
    """Attempts follow each other: nothing of one after the next, nor of its work after it was superseded."""
    newest, superseded = 0, 0
    for event in events:
        attempt = event["attempt"] or 0
        if attempt < newest:
            yield f"{name(event)} comes after attempt {newest}"
        elif attempt == superseded and attempt and event["status"] in WORK:
            yield f"{name(event)} comes after that attempt was superseded"
        newest = max(newest, attempt)
        if event["status"] == "superseded":
            superseded = attempt


def repetitions(events: Sequence[Event]) -> Iterable[str]:
    seen: set[tuple[Any, ...]] = set()
    for event in events:
        what = (event["attempt"], event["step"]) if event["step"] is not None else None
        if event["status"] in {"started", "superseded"}:
            what = (event["attempt"], event["status"])
        if what in seen:
            yield f"{name(event)} is there twice"
        if what:
            seen.add(what)


def name(event: Event) -> str:
    """An event in a few words: `step 3 of attempt 1`, `completed of attempt 2`."""
    what = event["status"] if event["step"] is None else f"step {event['step']}"
    return f"{what} of attempt {event['attempt']}" if event["attempt"] else str(what)
