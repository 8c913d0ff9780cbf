"""Runs the attempts of one platform: begin, decode, run, settle, and tell how it ended."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from tailrace.consumers.attempt import LARGEST_EVENT, Attempt
from tailrace.consumers.backoff import again_after, rules_for, seconds_left, timed_out
from tailrace.consumers.failures import failure_of, misfit, said_by
from tailrace.consumers.heart.shared_memory import Places
from tailrace.consumers.offload.dispatch import Offload
from tailrace.consumers.outcomes import (
    Completed,
    Delay,
    Delayed,
    Failed,
    GiveUp,
    Mute,
    Outcome,
    RateLimited,
    Released,
)
from tailrace.consumers.registry import Handler
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.history.events import event_body
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Failure, Job, encode
from tailrace.streams.operations import Again, BrokenOperation, Operation, call, word
from tailrace.streams.policies import Policy
from tailrace.streams.process.logs import about
from tailrace.streams.states import Status
from tailrace.streams.store.commit import Committer

log = structlog.get_logger()

ECHO_SECONDS = 1.0  # after the end of a lost attempt: the answers to its last writes are here by then


class RunningAttempt:
    """An attempt under way, as the runner holds it."""

    __slots__ = ("alone", "attempt", "begun", "claim", "ending", "rules", "settling", "slot", "task", "timer")

    def __init__(self, claim: Claim, rules: Policy, slot: int, alone: bool) -> None:
        self.claim = claim
        self.alone = alone  # nothing else may start in this process before the store has its outcome
        self.rules = rules
        self.slot = slot
        self.begun = time.monotonic()
        self.timer: asyncio.TimerHandle | None = None
        self.attempt: Attempt[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.ending: Outcome | None = None  # decided from outside: the attempt is cancelled to end so
        self.settling = False  # its outcome is on the way to the store


class Runner:
    """The attempts of one platform in this process."""

    def __init__(
        self,
        keys: PlatformKeys,
        policy: Policy,
        owner: str,
        handlers: Mapping[str, Handler],
        places: Places,
        done: Callable[[], None],
    ) -> None:
        """`done` is called when an attempt leaves its place."""
        self._keys = keys
        self._policy = policy
        self._owner = owner
        self._handlers = handlers
        self._places = places
        self._done = done
        self.running: dict[str, RunningAttempt] = {}
        self._refused: dict[str, str] = {}  # jobs that came too late, by nonce: they are handed back just now
        self.obey_seconds = 5.0  # as the consumer's settings say
        self.offload = Offload()  # the consumer sets one for all its platforms
        self.refused: Callable[[str, int, int], None] = lambda job_id, attempt, writes: None  # tells of late writes
        self.committer: Committer | None = None  # set by the consumer: runner and committer need each other

    def begin(self, claim: Claim, *, alone: bool = False) -> None:
        # A plain task: a task group and a deadline object for each job would cost more than a short job itself.
        rules = rules_for(self._policy, claim.options)
        seconds = seconds_left(rules, claim.age_seconds)
        deadline = time.monotonic() + seconds if seconds is not None else 0.0
        running = RunningAttempt(claim, rules, self._places.hold(claim.nonce, deadline), alone)
        self.running[claim.nonce] = running
        loop = asyncio.get_running_loop()
        running.task = loop.create_task(self._live(running))
        if seconds is not None:
            running.timer = loop.call_later(seconds, self._time_out, running)

    def _time_out(self, running: RunningAttempt) -> None:
        if running.settling or running.ending:
            return
        log.warning("attempt_timed_out", job=self._keys.id(running.claim.key), attempt=running.claim.number)
        self._stop(running, timed_out(running.rules, running.claim.age_seconds))

    def stop(self, nonce: str) -> None:
        """Somebody asked the job to stop. However the attempt is settled, the store ends the job cancelled."""
        self._stop_once(nonce, Released())

    def _stop_once(self, nonce: str, ending: Outcome) -> None:
        """The heart repeats what it knows: an attempt that is stopping already is left to its clean-up."""
        running = self.running.get(nonce)
        if running and running.ending is None and not running.settling:
            self._stop(running, ending)

    def _stop(self, running: RunningAttempt, ending: Outcome) -> None:
        """Cancel a handler; one that does not care is settled all the same, and refused from then on."""
        self._end(running.claim.nonce, ending)
        self._places.tell(running.slot)
        if running.timer:
            running.timer.cancel()

        def insist() -> None:
            if not running.settling:
                log.warning("handler_does_not_stop", job=self._keys.id(running.claim.key), kind=running.claim.kind)
                self._settle(running, ending)

        running.timer = asyncio.get_running_loop().call_later(self.obey_seconds, insist)

    def lose(self, nonce: str) -> None:
        """The store says that this attempt is no longer ours: end it, quietly."""
        self._stop_once(nonce, Mute())

    def release_all(self) -> None:
        """Hand everything back now. The handlers are cancelled; whatever they still do is refused by the fence."""
        for nonce, running in list(self.running.items()):
            if not running.settling:
                self._end(nonce, Released())
                self._settle(running, Released())

    def refuse(self, claim: Claim) -> None:
        """Hand back a job that came too late: this consumer is about to leave."""
        assert self.committer is not None
        self._refused[claim.nonce] = claim.key
        operation = call.release(self._keys, key=claim.key, nonce=claim.nonce, max_starts=self._policy.max_starts)

        def taken_back(_: Any) -> None:
            del self._refused[claim.nonce]

        self.committer.say(operation, taken_back)

    def unsettled(self) -> list[str]:
        """The keys of jobs that are still ours to settle, as far as they are known."""
        return [*(running.claim.key for running in self.running.values()), *self._refused.values()]

    @property
    def busy(self) -> int:
        """How many jobs are still ours to settle."""
        return len(self.running) + len(self._refused)

    def _end(self, nonce: str, ending: Outcome) -> None:
        running = self.running.get(nonce)
        if running and not running.settling and running.task:
            running.ending = ending
            running.task.cancel()

    async def _live(self, running: RunningAttempt) -> None:
        """Whatever a handler does, its attempt ends in an outcome: one that never settled would run for ever."""
        job_id, number = self._keys.id(running.claim.key), running.claim.number
        about(job=job_id, attempt=number, platform=self._keys.platform, owner=self._owner)
        try:
            outcome = await self._outcome(running)
        except asyncio.CancelledError as error:
            # Nobody here asked for it: the handler cancelled itself, which is its failure.
            outcome = running.ending or Failed(failure_of(error))
        except BaseException as error:
            outcome = running.ending or Failed(failure_of(error), final=isinstance(error, GiveUp))
        if not running.settling:
            self._settle(running, outcome)

    async def _outcome(self, running: RunningAttempt) -> Outcome:
        claim = running.claim
        handler = self._handlers.get(claim.kind)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            unknown = Failure("UnknownKind", f"no handler for the kind {claim.kind}; known here are {known}")
            return Failed(unknown, final=True)
        try:
            args = handler.decode(claim.args)
        except Exception as error:  # a struct's own __post_init__ may raise anything
            wrong = Failure("WrongArgs", f"the args do not fit the kind {claim.kind}: {misfit(error)}")
            return Failed(wrong, final=True)
        job = Job(self._keys.platform, claim.key, claim.kind, claim.args)
        assert self.committer is not None
        attempt = running.attempt = Attempt(job, claim, args, self._owner, self._keys, self.committer.say)
        attempt.max_events, attempt.max_step_bytes = running.rules.max_events, running.rules.max_step_bytes
        try:
            result = await (handler.function(attempt) if handler.direct else self.offload.call(handler, attempt))
            await attempt.quiet()
            return Completed(result)
        except Lost:
            return Mute()
        except Cancelled:
            return Released()
        except Delay as later:
            await attempt.quiet()
            return Delayed(later.seconds, hold=isinstance(later, RateLimited))

    def _settle(self, running: RunningAttempt, outcome: Outcome) -> None:
        """Send the outcome. The place is free from now on, so that the same call can bring the next job."""
        running.settling = True
        self._places.settle(running.slot)
        if running.timer:
            running.timer.cancel()
        if not running.alone:
            self._done()
        if isinstance(outcome, Mute):
            self._finished(running, "mute")
            return
        assert self.committer is not None
        try:
            operation = self._operation(running, outcome)
        except Exception as error:  # a delay that is no number any more: whatever it is, the attempt must be settled
            operation = self._operation(running, Failed(failure_of(error)))
        self.committer.say(operation, lambda answer: self._settled(running, answer))

    def _operation(self, running: RunningAttempt, outcome: Outcome) -> Operation:
        claim, rules = running.claim, running.rules
        if isinstance(outcome, Released):
            return call.release(self._keys, key=claim.key, nonce=claim.nonce, max_starts=rules.max_starts)
        if isinstance(outcome, Delayed):
            again = Again(outcome.seconds, 0, rules.max_starts, rules.order)
            return call.delay(self._keys, key=claim.key, nonce=claim.nonce, hold=int(outcome.hold), **again.rest)
        if isinstance(outcome, Completed):
            try:
                event = self._last_event(claim, Status.COMPLETED, result=outcome.result)
            except Exception as error:  # encoding runs code of the result's own types
                message = f"the result cannot be kept as JSON: {said_by(error)}"
            else:
                if len(event) <= LARGEST_EVENT:
                    return call.complete(self._keys, key=claim.key, nonce=claim.nonce, event=event)
                message = f"the result has {len(event)} bytes; over 1 MB does not go into the store"
            outcome = Failed(Failure("WrongResult", message), final=True)
        assert isinstance(outcome, Failed)
        why = f"{outcome.error.type}: {outcome.error.message}"
        trace = {"exception": outcome.error.traceback} if outcome.error.traceback else {}
        log.warning("attempt_failed", job=self._keys.id(claim.key), attempt=claim.number, error=why, **trace)
        handler = self._handlers.get(claim.kind)
        age_seconds = claim.age_seconds + time.monotonic() - running.begun
        again = again_after(outcome, claim.failures + 1, age_seconds, rules, handler.backoff if handler else None)
        more = failure_members(outcome)
        return call.fail(self._keys, key=claim.key, nonce=claim.nonce, attempts=again.attempts, more=more, **again.rest)

    def _last_event(self, claim: Claim, status: Status, **more: Any) -> bytes:
        return event_body(claim.number, status, self._owner, **more)

    def _settled(self, running: RunningAttempt, answer: Any) -> None:
        try:
            self._finished(running, word(answer))
        except BrokenOperation as error:
            log.error(
                "settle_broken",
                job=self._keys.id(running.claim.key),
                attempt=running.claim.number,
                error=str(error),
            )
            self._finished(running, "broken")

    def _finished(self, running: RunningAttempt, how: str) -> None:
        claim = running.claim
        if self.running.pop(claim.nonce, None):
            self._places.free(running.slot)
            if running.alone:
                self._done()
        if how in {"lost", "mute"}:
            log.warning("attempt_lost", job=self._keys.id(claim.key), attempt=claim.number)
            asyncio.get_running_loop().call_later(ECHO_SECONDS, self._tell_refused, running, how == "lost")

    def _tell_refused(self, running: RunningAttempt, settled_late: bool) -> None:
        writes = (running.attempt.refused if running.attempt else 0) + settled_late
        if writes:
            self.refused(self._keys.id(running.claim.key), running.claim.number, writes)


def failure_members(outcome: Failed) -> bytes:
    """What the event says of a failure, as the store takes it: JSON members with a leading comma."""
    said: dict[str, Any] = {"error": outcome.error}
    if outcome.reason:
        said["reason"] = outcome.reason
    return b"," + encode(said)[1:-1]
