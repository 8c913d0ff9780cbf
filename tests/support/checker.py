"""What must hold over all jobs of a run, told from nothing but their histories: each answer is a list of sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import msgspec

from tailrace.ops.race.violations import violations
from tailrace.streams.history.events import Event
from tailrace.streams.states import Status

Histories = Mapping[str, Sequence[Event]]

LEAVES = frozenset(
    {Status.SUPERSEDED, Status.RETRYING, Status.DELAYED, Status.COMPLETED, Status.FAILED, Status.CANCELLED}
)


MICROS_DIGITS = 16  # of the time in microseconds, until the year 2286


class Run(NamedTuple):
    """One attempt from its start to its end, in microseconds of the store's clock."""

    began: int
    ended: int
    job_id: str
    attempt: int


def micros(event: Event) -> int:
    """When an event was written: the second half of its id, without the event's number within its call."""
    return int(event.id.partition("-")[2][:MICROS_DIGITS])


def runs(history: Sequence[Event]) -> Iterator[Run]:
    begun: Event | None = None
    for event in history:
        if event.status is Status.STARTED:
            begun = event
        elif begun and event.status in LEAVES:
            yield Run(micros(begun), micros(event), event.jobId, begun.attempt or 0)
            begun = None


def unclean(histories: Histories) -> list[str]:
    """Each history for itself: every step once, one attempt after the other, one end."""
    return [
        f"{job_id}: {violation}"
        for job_id, history in histories.items()
        for violation in violations([msgspec.to_builtins(event) for event in history])
    ]


def overlaps(histories: Histories) -> list[str]:
    """Attempts that ran at the same time; there are none on a platform that runs one at a time."""
    order = sorted(run for history in histories.values() for run in runs(history))
    return [
        f"attempt {next_run.attempt} of {next_run.job_id} began before attempt {run.attempt} of {run.job_id} had ended"
        for run, next_run in pairwise(order)
        if next_run.began < run.ended
    ]


def jumped_the_line(histories: Histories) -> list[str]:
    """Jobs of a platform that runs one at a time that first started before an earlier one had its end: who comes back
    after a loss goes before all newer ones. `histories` is in the order of acceptance."""
    return [
        f"{later[0].jobId} started before {earlier[0].jobId} had ended"
        for earlier, later in pairwise(histories.values())
        if next(runs(later)).began < micros(earlier[-1])
    ]


class Span(NamedTuple):
    """A stretch of time, in microseconds of the store's clock."""

    begin: int
    end: int


def waits(history: Sequence[Event]) -> Iterator[Span]:
    """Each stretch in which the job could have started, had there been a free slot for it."""
    since: int | None = None
    for event in history:
        if event.status in (Status.QUEUED, Status.SUPERSEDED, Status.REOPENED):
            since = micros(event)
        elif event.status in (Status.RETRYING, Status.DELAYED):
            until = datetime.fromisoformat(event.retryAt or event.until or event.time)
            since = int(until.timestamp() * 1e6)
        elif event.status is Status.STARTED and since is not None:
            yield Span(since, micros(event))
            since = None


def without(span: Span, holes: Iterable[Span]) -> Iterator[Span]:
    """What is left of a stretch when others are cut out of it."""
    begin = span.begin
    for hole in sorted(holes):
        if hole.end > begin and hole.begin < span.end:
            if hole.begin > begin:
                yield Span(begin, hole.begin)
            begin = hole.end
    if begin < span.end:
        yield Span(begin, span.end)


def full(histories: Histories, slots: int) -> list[Span]:
    """When all slots of a platform were taken."""
    changes = sorted(
        change
        for history in histories.values()
        for run in runs(history)
        for change in ((run.began, 1), (run.ended, -1))
    )
    spans, running, begin = [], 0, 0
    for at, change in changes:
        if running < slots <= running + change:
            begin = at
        elif running + change < slots <= running:
            spans.append(Span(begin, at))
        running += change
    return spans


def rate_closed(histories: Histories, rate: int, seconds: float) -> list[Span]:
    """When a platform had as many starts behind it as its rate allows."""
    starts = sorted(run.began for history in histories.values() for run in runs(history))
    window = int(seconds * 1e6)
    return [
        Span(last, first + window)
        for first, last in zip(starts, starts[rate - 1 :], strict=False)
        if last < first + window
    ]


def longest_idle_wait(histories: Histories, closed: Sequence[Span]) -> tuple[float, str]:
    """How long a job waited at the most, in seconds, while it could have started, and which one. `closed` says when
    none could: all slots were taken, the rate was reached, or there was no store or no worker."""
    idle = (
        ((left.end - left.begin) / 1e6, job_id)
        for job_id, history in histories.items()
        for wait in waits(history)
        for left in without(wait, closed)
    )
    return max(idle, default=(0.0, "none"))


def too_fast(histories: Histories, rate: int, seconds: float) -> list[str]:
    """Starts beyond what a platform's rate allows within any window; the store counts in milliseconds."""
    starts = sorted((run.began, run.job_id) for history in histories.values() for run in runs(history))
    return [
        f"{job_id} started only {(last - first) / 1e6:.3f} s after the start {rate} before it"
        for (first, _), (last, job_id) in zip(starts, starts[rate:], strict=False)
        if last // 1000 - first // 1000 < seconds * 1000
    ]


def too_many(histories: Histories, slots: int) -> list[Span]:
    """When more attempts ran at a time than there are slots."""
    return [span for span in full(histories, slots + 1) if span.end > span.begin]


def takeovers(histories: Histories) -> list[Event]:
    """Every event that says that a worker was lost."""
    return [event for history in histories.values() for event in history if event.reason == "lost"]


def false_takeovers(histories: Histories, harmed: Mapping[str, float]) -> list[str]:
    """Workers that were taken for lost before anything was done to them; `harmed` says when something was."""
    return [
        f"{event.workerId} lost attempt {event.attempt} of {event.jobId} though its beats arrived"
        for event in takeovers(histories)
        if micros(event) < 1e6 * harmed.get(event.workerId or "", float("inf"))
    ]
