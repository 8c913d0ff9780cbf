"""Runs a handler without a store, as a consumer would: for tests of handlers."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.offload.dispatch import Offload
from tailrace.consumers.program.lifespans import Lifespans
from tailrace.consumers.registry import Handler
from tailrace.consumers.runner import ProcessContext, Runner
from tailrace.streams.history.events import Event, read_body, read_members
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Failure, encode
from tailrace.streams.operations import Operation
from tailrace.streams.policies import Policy
from tailrace.streams.process.histogram import SIZES, TRIPS, Histogram
from tailrace.streams.states import Status
from tailrace.streams.store.commit import Committer, Heard

KEYS = PlatformKeys("testing")
KEY = "job"
NONCE = "nonce"

PATIENT = Policy()
TABLE = LeaseTable()  # here no heart reads it
OPENED = object()  # the lifespan is entered


class HandlerOutcome(Struct, frozen=True):
    """How an attempt ended, and what its consumer would do next."""

    status: Status
    """What a client would see: completed, retrying, failed, delayed or cancelled; superseded: it is another's."""
    result: Any = None
    """Of a completed attempt, as JSON has it."""
    error: Failure | None = None
    """Of one that is retrying or failed."""
    progress: tuple[Event, ...] = ()
    """Its reports in order, each step once."""
    steps: dict[str, Any] = {}
    """What it saved, by name, as JSON has it."""
    again_in_seconds: float | None = None
    """When the job would start again, if it would."""
    gave_up: bool = False
    """It failed for good although attempts were left: GiveUp, args or a result that do not fit, no handler."""

    @property
    def retried(self) -> bool:
        return self.status is Status.RETRYING


async def run_handler(
    handlers: Mapping[str, Handler],
    kind: str,
    args: Any = None,
    *,
    attempt: int = 1,
    failures: int = 0,
    policy: Policy = PATIENT,
    timeout_seconds: float | None = None,
    cancel_after: float | None = None,
    saved: Mapping[str, Any] | None = None,
    state: Any = OPENED,
) -> HandlerOutcome:
    """One attempt at a job, with hooks, threads and processes as in a consumer.

    `attempt` is its number and `failures` how many failed before it; `policy` decides what follows. With `cancel_after`
    the job is asked to stop after so many seconds: it ends cancelled, unless it was quicker. `saved` is what steps gave
    in earlier attempts, for `attempt` 2 and later. `state` stands in for what the lifespan of the handlers opens;
    without it the lifespan is entered and left. A handler in a process opens its own there: `state` is refused.
    """
    handler = handlers.get(kind)
    lifespan = handler.lifespan if handler else None
    if state is OPENED:
        lifespans = Lifespans([lifespan])
    elif handler and handler.run_in == "process":
        raise ValueError(f'state: the kind {kind} has run_in="process", and its lifespan opens the state there')
    else:
        lifespans = Lifespans.given(lifespan, state)
    if timeout_seconds is not None:
        policy = msgspec.structs.replace(policy, timeout_seconds=timeout_seconds)
    claim = Claim(NONCE, KEY, attempt, kind, encode({} if args is None else args), failures=failures)
    stand_in = StandIn(claim, saved or {})
    async with lifespans, Offload() as offload:
        process = ProcessContext("tester", handlers, offload, TABLE, lifespans)
        runner = Runner(KEYS, 0, policy, process, stand_in, stand_in.left)
        runner.begin(claim)
        running = runner.running[NONCE]

        def cancel() -> None:
            stand_in.cancelling = True
            runner.stop(NONCE)

        timer = asyncio.get_running_loop().call_later(cancel_after, cancel) if cancel_after is not None else None
        try:
            outcome = await asyncio.shield(stand_in.outcome)
            return msgspec.structs.replace(outcome, progress=tuple(stand_in.progress), steps=stand_in.steps)
        finally:
            if timer:
                timer.cancel()
            if running.task:
                running.task.cancel()


class StandIn(Committer):
    """Hears what one attempt says, and answers as the store would."""

    def __init__(self, claim: Claim, saved: Mapping[str, Any]) -> None:
        self.batches, self.trips = Histogram.over(SIZES), Histogram.over(TRIPS)
        self.cancelling = False
        self.steps = dict(saved)
        self.outcome: asyncio.Future[HandlerOutcome] = asyncio.get_running_loop().create_future()
        self._job = claim
        self.progress: list[Event] = []

    def say(self, operation: Operation, heard: Heard) -> None:
        said = operation.named
        if operation.name == "report":
            # `queued` and `started` count too
            if not self.cancelling and len(self.progress) + 2 >= int(said["most"]):
                heard(b"full")
                return
            self.progress.append(event_of(said["event"]))
            heard(b"cancelled" if self.cancelling else b"shown")
        elif operation.name == "recall":
            heard([b"", *(part for name, value in self.steps.items() for part in (name.encode(), encode(value)))])
        elif operation.name == "save":
            name, value = said["name"], said["value"]
            before = sum(len(step.encode()) + len(encode(saved)) for step, saved in self.steps.items())
            if not self.cancelling and before + len(name.encode()) + len(value) > int(said["most"]):
                heard(b"full")
                return
            self.steps.setdefault(name, msgspec.json.decode(value))
            heard(b"cancelled" if self.cancelling else b"saved")
        else:
            if not self.outcome.done():
                self.outcome.set_result(self._outcome(operation))
            heard(b"ok")

    def left(self) -> None:
        """The attempt is over; one that lost its job says nothing more."""
        asyncio.get_running_loop().call_soon(self._unheard)

    def _unheard(self) -> None:
        if not self.outcome.done():
            self.outcome.set_result(HandlerOutcome(Status.SUPERSEDED))

    def _outcome(self, operation: Operation) -> HandlerOutcome:
        said = operation.named
        if self.cancelling:
            return HandlerOutcome(Status.CANCELLED)
        if operation.name == "complete":
            return HandlerOutcome(Status.COMPLETED, result=event_of(said["event"]).result)
        if operation.name == "delay":
            if self._job.number >= said["max_starts"]:
                circles = Failure("TooManyStarts", f"it was started {self._job.number} times and never ended")
                return HandlerOutcome(Status.FAILED, error=circles)
            return HandlerOutcome(Status.DELAYED, again_in_seconds=said["delay_ms"] / 1000)
        if operation.name == "release":
            return HandlerOutcome(Status.SUPERSEDED)
        error = read_members(said["more"])["error"]
        again = self._job.failures + 1 < said["attempts"] and self._job.number < said["max_starts"]
        return HandlerOutcome(
            Status.RETRYING if again else Status.FAILED,
            error=msgspec.convert(error, Failure),
            again_in_seconds=said["delay_ms"] / 1000 if again else None,
            gave_up=said["attempts"] == 0,
        )


def event_of(body: bytes) -> Event:
    return read_body(KEYS.id(KEY), body)
