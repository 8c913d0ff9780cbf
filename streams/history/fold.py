"""The fold: events in, visible events out; pure, so that every reader sees the same single history.

Shown are
  - events of this job that are whole: one line of JSON with all the fields of an event,
  - each number once, each step once per attempt, and what has no step once per attempt and status,
  - nothing of an attempt once a newer one was shown, nor of its work once it has left its job,
  - nothing after the end, unless the job was reopened: a new life, with one end of its own.

The store's fence already writes such logs. The fold holds even for logs that were changed by hand.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tailrace.streams.messages import Step
from tailrace.streams.states import TERMINAL, Status


class Head(Struct, frozen=True):
    """The fields of an event that the fold reads."""

    id: Annotated[str, Meta(pattern=r"^[0-9]+-[0-9]+\Z", max_length=64)]
    seq: int
    jobId: str
    attempt: Annotated[int, Meta(ge=1)] | None  # None: before the first start
    status: Status
    step: Step | None


WORK = frozenset({Status.STARTED, Status.PROGRESS, Status.COMPLETED})
"""The statuses that only an attempt with its lease can write."""

LEAVES = frozenset({Status.SUPERSEDED, Status.RETRYING, Status.DELAYED, Status.AWAITING})
"""The statuses that end an attempt but not its job."""

_decode = msgspec.json.Decoder(Head).decode


def read_head(raw: bytes) -> Head | None:
    """The head of an event; None for bytes that are not one."""
    if b"\n" in raw or b"\r" in raw:  # a client reads line by line: such an event would look like two
        return None
    try:
        if not raw.isascii():
            raw.decode()
        return _decode(raw)
    except (ValueError, RecursionError):
        return None


class Fold:
    """Decides which events of one job are shown, from those shown before."""

    __slots__ = ("_seen", "attempt", "ended", "job_id", "left")

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.attempt = 0  # the newest one shown
        self.left = False  # whether that one has left its job
        self.ended = False
        self._seen: set[object] = set()

    def accept(self, head: Head) -> bool:
        """Whether the event is shown; if it is not, it leaves no trace."""
        attempt = head.attempt or 0
        reopens = head.status is Status.REOPENED
        if head.jobId != self.job_id or attempt < self.attempt or reopens is not self.ended:
            return False
        if self.left and attempt == self.attempt and head.status in WORK:
            return False
        what = (attempt, head.status) if head.step is None else (attempt, "step", head.step)
        if head.id in self._seen or head.seq in self._seen or what in self._seen:
            return False
        self._seen |= {head.id, head.seq, what}
        if reopens:  # a person may reopen and cancel again, with no attempt in between
            self._seen -= {(attempt, Status.REOPENED), (attempt, Status.CANCELLED)}
        self.left = head.status in LEAVES or (self.left and attempt == self.attempt)
        self.attempt = attempt
        self.ended = head.status in TERMINAL
        return True

    def begin_after(self, head: Head) -> None:
        """Continue after this event, which was shown: what came before it is not needed where the log is in order."""
        self.attempt = head.attempt or 0
        self.left = head.status in LEAVES
        self.ended = head.status in TERMINAL
        self._seen |= {head.id, head.seq}


def visible(job_id: str, events: Iterable[bytes]) -> list[tuple[Head, bytes]]:
    """The visible ones among a job's events, as they were written."""
    fold = Fold(job_id)
    return [(head, raw) for raw in events if (head := read_head(raw)) and fold.accept(head)]
