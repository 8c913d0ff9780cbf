"""What must hold over all jobs of a run, told from nothing but their histories: each answer is a list of sentences."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from ops.checker import violations
from streams.messages import Event
from streams.states import Status

Histories = Mapping[str, Sequence[Event]]

LEAVES = frozenset(
    {Status.SUPERSEDED, Status.RETRYING, Status.DELAYED, Status.COMPLETED, Status.FAILED, Status.CANCELLED}
)


class Run(NamedTuple):
    """One attempt from its start to its end, in microseconds of the store's clock."""

    began: int
    ended: int
    job_id: str
    attempt: int


def micros(event: Event) -> int:
    """When an event was written: the second half of its id."""
    return int(event.id.partition("-")[2])


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
