"""The life of a job: its states, its events, and the table of transitions that docs and tests read."""

from enum import StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """The state of a job; its record holds the word."""

    WAITING = "waiting"
    RUNNING = "running"
    DELAYED = "delayed"
    AWAITING = "awaiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in ENDED


ENDED: Final = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})


class Status(StrEnum):
    """The status of an event: the word that clients see."""

    QUEUED = "queued"
    STARTED = "started"
    PROGRESS = "progress"
    DELAYED = "delayed"
    RETRYING = "retrying"
    SUPERSEDED = "superseded"
    AWAITING = "awaiting"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REOPENED = "reopened"


TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class Change(NamedTuple):
    """One way a job's state may change: by which transition, from where, to where, shown as which event."""

    transition: str
    before: State | None
    after: State
    status: Status | None  # None: no event


CHANGES: Final = (
    Change("submit", None, State.WAITING, Status.QUEUED),
    Change("submit", None, State.DELAYED, Status.DELAYED),
    Change("spawn", None, State.WAITING, Status.QUEUED),
    Change("spawn", None, State.DELAYED, Status.DELAYED),
    Change("tick", None, State.WAITING, Status.QUEUED),
    Change("tick", None, State.DELAYED, Status.DELAYED),
    Change("wake", State.DELAYED, State.WAITING, None),
    Change("wake", State.WAITING, State.FAILED, Status.FAILED),
    Change("wake", State.DELAYED, State.FAILED, Status.FAILED),
    Change("wake", State.AWAITING, State.WAITING, None),
    Change("claim", State.WAITING, State.RUNNING, Status.STARTED),
    Change("claim", State.WAITING, State.FAILED, Status.FAILED),
    Change("report", State.RUNNING, State.RUNNING, Status.PROGRESS),
    Change("complete", State.RUNNING, State.COMPLETED, Status.COMPLETED),
    Change("complete", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("fail", State.RUNNING, State.DELAYED, Status.RETRYING),
    Change("fail", State.RUNNING, State.FAILED, Status.FAILED),
    Change("fail", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("delay", State.RUNNING, State.DELAYED, Status.DELAYED),
    Change("delay", State.RUNNING, State.FAILED, Status.FAILED),
    Change("delay", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("requeue", State.RUNNING, State.WAITING, Status.SUPERSEDED),
    Change("requeue", State.RUNNING, State.FAILED, Status.FAILED),
    Change("requeue", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("wait", State.RUNNING, State.AWAITING, Status.AWAITING),
    Change("wait", State.RUNNING, State.DELAYED, Status.DELAYED),
    Change("wait", State.RUNNING, State.FAILED, Status.FAILED),
    Change("wait", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("signal", State.AWAITING, State.WAITING, None),
    Change("arrive", State.AWAITING, State.WAITING, None),
    Change("arrive", State.FAILED, State.AWAITING, Status.REOPENED),
    Change("release", State.RUNNING, State.WAITING, Status.SUPERSEDED),
    Change("release", State.RUNNING, State.FAILED, Status.FAILED),
    Change("release", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("reclaim", State.RUNNING, State.WAITING, Status.SUPERSEDED),
    Change("reclaim", State.RUNNING, State.FAILED, Status.FAILED),
    Change("reclaim", State.RUNNING, State.CANCELLED, Status.CANCELLED),
    Change("mend", State.RUNNING, State.WAITING, Status.SUPERSEDED),
    Change("mend", State.RUNNING, State.FAILED, Status.FAILED),
    Change("mend", State.AWAITING, State.WAITING, None),
    Change("mend", State.AWAITING, State.FAILED, Status.FAILED),
    Change("mend", State.WAITING, State.FAILED, Status.FAILED),
    Change("mend", State.DELAYED, State.FAILED, Status.FAILED),
    Change("cancel", State.WAITING, State.CANCELLED, Status.CANCELLED),
    Change("cancel", State.DELAYED, State.CANCELLED, Status.CANCELLED),
    Change("cancel", State.AWAITING, State.CANCELLED, Status.CANCELLED),
    Change("cancel", State.RUNNING, State.RUNNING, Status.CANCELLING),
    Change("reopen", State.FAILED, State.WAITING, Status.REOPENED),
    Change("reopen", State.CANCELLED, State.WAITING, Status.REOPENED),
)


def allowed(transition: str, before: State | None) -> frozenset[State]:
    """The states a job may be in after `transition` found it in `before`; empty: it is refused."""
    return frozenset(c.after for c in CHANGES if c.transition == transition and c.before is before)
