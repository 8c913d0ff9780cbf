"""A running attempt as its runner holds it, and the operation that settles it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.reports import LARGEST_EVENT
from tailrace.consumers.backoff import again_after
from tailrace.consumers.outcomes import (
    ChildFailed,
    Completed,
    Delayed,
    Failed,
    GiveUp,
    Mute,
    Outcome,
    Released,
    Requeued,
    failure_members,
    failure_of,
    said_by,
)
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.history.events import event_body
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Failure
from tailrace.streams.operations import Again, Operation, call
from tailrace.streams.policies import Policy
from tailrace.streams.process.tracing import AttemptSpan
from tailrace.streams.states import Status

TOO_LARGE = Failed(
    Failure(
        "WrongResult",
        "the result has over 256 KB, which the job that spawned this one cannot keep; "
        "store it elsewhere, and return a reference to it",
    ),
    final=True,
)


class RunningAttempt(Struct, eq=False):
    """An attempt under way, as the runner holds it."""

    claim: Claim
    rules: Policy
    slot: int
    keeps_slot: bool  # until the store has its outcome: it runs alone in its process, or outcomes queue up
    begun: float
    timer: asyncio.TimerHandle | None = None
    attempt: Attempt[Any] | None = None
    task: asyncio.Task[None] | None = None
    ending: Outcome | None = None  # decided by the runner: the attempt is cancelled, and ends with this outcome
    settling: bool = False  # its outcome is on the way to the store
    waiting: bool = False  # it asks the store to wait for something, and does not know yet whether it is over
    completion: bytes = b""  # the event that completes it
    outcome: str = "lost"  # as it is counted, unless the store says otherwise
    span: AttemptSpan | None = None  # with an SDK of OpenTelemetry
    error: str | None = None  # the type of error that it failed with

    @property
    def age_seconds(self) -> float:
        """How long its job has run, with all attempts."""
        return self.claim.age_seconds + time.monotonic() - self.begun


class Misfit(Exception):
    """A job that no attempt can run; the failure says why."""

    def __init__(self, type: str, message: str) -> None:
        self.failure = Failure(type, message)
        super().__init__(message)


def outcome_of(error: BaseException, ending: Outcome | None) -> Outcome:
    """The outcome of an attempt that raised; `ending` is the outcome that the runner decided, if it did."""
    if isinstance(error, Lost):
        return Mute()
    if isinstance(error, Cancelled):
        return Released()
    if ending:
        return ending
    if isinstance(error, Misfit):
        return Failed(error.failure, final=True)
    return Failed(failure_of(error), final=isinstance(error, GiveUp | ChildFailed))  # also one that cancelled itself


def operation_of(
    keys: PlatformKeys,
    owner: str,
    running: RunningAttempt,
    outcome: Outcome,
    backoff: Callable[[int], float] | None,
) -> tuple[Operation, Failed | None]:
    """The operation that settles an attempt, and its failure if it failed; `backoff` is the rule of its handler."""
    claim, rules = running.claim, running.rules
    if isinstance(outcome, Completed):
        try:
            event = event_body(claim.number, Status.COMPLETED, owner, result=outcome.result)
        except Exception as error:  # encoding runs code of the result's own types
            message = f"the result cannot be kept as JSON: {said_by(error)}"
        else:
            if len(event) <= LARGEST_EVENT:
                running.outcome, running.completion = "completed", event
                return call.complete(keys, key=claim.key, nonce=claim.nonce, event=event), None
            message = f"the result has {len(event)} bytes; at most 1 MB goes into the store"
        outcome = Failed(Failure("WrongResult", message), final=True)
    if isinstance(outcome, Released):
        running.outcome = "released"
        return call.release(keys, key=claim.key, nonce=claim.nonce, max_starts=rules.max_starts), None
    if isinstance(outcome, Delayed):
        running.outcome = "delayed"
        again = Again(outcome.seconds, 0, rules.max_starts, rules.order)
        return call.delay(keys, key=claim.key, nonce=claim.nonce, hold=int(outcome.hold), **again.rest), None
    if isinstance(outcome, Requeued):
        running.outcome = "requeued"
        return call.requeue(keys, key=claim.key, nonce=claim.nonce, max_starts=rules.max_starts), None
    assert isinstance(outcome, Failed)
    running.outcome = "failed"
    again = again_after(outcome, claim.failures + 1, running.age_seconds, rules, backoff)
    more, attempts = failure_members(outcome), again.attempts
    return call.fail(keys, key=claim.key, nonce=claim.nonce, attempts=attempts, more=more, **again.rest), outcome
