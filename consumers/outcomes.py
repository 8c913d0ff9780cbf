"""Outcomes of attempts: the exceptions by which a handler steers its job, and errors as clients see them."""

import traceback
from datetime import UTC, datetime
from os.path import dirname, join
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.producers.declarations import misfit as misfit_of
from tailrace.streams.history.events import members
from tailrace.streams.messages import Failure
from tailrace.streams.process.logs import mask

LONGEST_TYPE = 200
LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 8000
MARGIN = 16_000  # more is masked than is kept, so that no secret is cut in two before it is masked

HERE = dirname(__file__)
OURS = {HERE, join(HERE, "attempts"), join(HERE, "offload")}  # not the built-in handlers, which are in another folder


class Steers(Exception):
    """The base of what a handler raises to delay or end its job. Not an error."""


class Delay(Steers):
    """Raised by a handler: try this job again after `seconds`, or at a time. Not a failure."""

    def __init__(self, seconds: float | None = None, *, until: datetime | None = None) -> None:
        """`until` has an offset from UTC; a time that has passed means at once."""
        self.seconds = checked_seconds(seconds_until(seconds, until))
        super().__init__(f"put off for {self.seconds:g} s")


class RateLimited(Delay):
    """Raised by a handler: a server it asked wants a pause; no job of the platform starts for `seconds`."""


class Waiting(Steers):
    """Raised by a handler: try this job again after all others of its priority that wait now. Not a failure."""


class GiveUp(Steers):
    """Raised by a handler: trying again would not help; the job ends failed now."""


class ChildFailed(Exception):
    """A child of the job failed for good, or was cancelled. The job fails with it, unless its handler catches this."""

    def __init__(self, job_id: str, kind: str, error: Failure) -> None:
        super().__init__(f"child {job_id} of kind {kind}: {error.type}: {error.message}")
        self.job_id = job_id
        self.kind = kind
        self.error = error


class Rest(BaseException):
    """Raised in a handler that waits for something: the store has ended its attempt, and the job goes on in another.

    Not an `Exception`, so that `except Exception` in a handler lets it pass.
    """


class Completed(Struct, frozen=True):
    """The handler returned."""

    result: Any


class Failed(Struct, frozen=True):
    """The handler raised, took too long, or could not be begun."""

    error: Failure
    final: bool = False  # trying again would not help
    reason: str | None = None


class Delayed(Struct, frozen=True):
    """The handler put its job off."""

    seconds: float
    hold: bool = False  # and every other job of its platform


class Requeued(Struct, frozen=True):
    """The handler sent its job to the end of its queue."""


class Released(Struct, frozen=True):
    """The consumer hands the job back unfinished: it shuts down, or the job was asked to stop."""


class Mute(Struct, frozen=True):
    """The attempt no longer owns its job: nothing is written."""


Outcome = Completed | Failed | Delayed | Requeued | Released | Mute


def seconds_until(seconds: float | None, until: datetime | None) -> float:
    """How long a delay is that is given as a length or as a point in time."""
    if (seconds is None) == (until is None):
        raise TypeError(
            "a delay takes either seconds or until, such as Delay(60) or Delay(until=datetime(…, tzinfo=UTC))"
        )
    if until is None:
        assert seconds is not None
        return seconds
    if until.tzinfo is None:
        raise ValueError(f"until: {until.isoformat()} has no offset from UTC; write datetime(…, tzinfo=UTC)")
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def checked_seconds(seconds: float) -> float:
    if not isinstance(seconds, int | float):
        raise TypeError(f"a delay is a number of seconds from 0 to ten years, not {seconds!r}")
    if not 0 <= seconds <= 10 * 366 * 86_400:
        raise ValueError(f"a delay is a number of seconds from 0 to ten years, not {seconds}")
    return seconds


class RaisedElsewhere(Exception):
    """A handler raised in its worker process; `failure` tells what."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.type}: {failure.message}")
        self.failure = failure


def failure_of(error: BaseException) -> Failure:
    """Its type, what it says and where it was raised, bounded and without secrets."""
    if isinstance(error, RaisedElsewhere):
        return error.failure
    try:
        text = "".join(traceback.format_exception(type(error), error, from_handler(error.__traceback__)))
    except Exception:
        text = "the traceback cannot be shown"
    message = mask(said_by(error)[: LONGEST_MESSAGE + MARGIN])[:LONGEST_MESSAGE]
    trace = mask(_safe(text[-LONGEST_TRACEBACK - MARGIN :]))[-LONGEST_TRACEBACK:]
    child = error.error.child or error.job_id if isinstance(error, ChildFailed) else None
    return Failure(_type_of(error), message, trace, child)


def from_handler(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames in front: it begins where the handler, or a hook around it, begins."""
    first = trace
    while first and dirname(first.tb_frame.f_code.co_filename) in OURS:
        first = first.tb_next
    return first or trace


def _type_of(error: BaseException) -> str:
    try:
        return _safe(type(error).__name__)[:LONGEST_TYPE]
    except Exception:  # a metaclass may say anything
        return "Exception"


def said_by(error: BaseException) -> str:
    try:
        return _safe(str(error))
    except Exception:
        return "the error has no message: its __str__ fails"


def failure_members(outcome: Failed) -> bytes:
    """The members of an event about a failure, as the store takes them."""
    return members(error=outcome.error, reason=outcome.reason or None)


def misfit(error: Exception) -> str:
    """Why args do not fit the type that a handler asks for."""
    return ": ".join(misfit_of(error)) if isinstance(error, msgspec.ValidationError) else said_by(error)


def _safe(text: str) -> str:
    """Without lone surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
