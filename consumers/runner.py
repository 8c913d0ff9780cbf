"""Runs the attempts of one platform: begin, decode, run, settle, and tell how it ended."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.attempts.endings import TOO_LARGE, Misfit, RunningAttempt, operation_of, outcome_of
from tailrace.consumers.attempts.outbound import PARENT, Outbound
from tailrace.consumers.attempts.saying import NewJobs, Told
from tailrace.consumers.backoff import seconds_left, timed_out
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.metrics.counters import ConsumerCounters
from tailrace.consumers.offload.dispatch import Offload
from tailrace.consumers.outcomes import (
    Completed,
    Delay,
    Delayed,
    Failed,
    Mute,
    Outcome,
    RateLimited,
    Released,
    Requeued,
    Waiting,
    failure_of,
    misfit,
)
from tailrace.consumers.program.lifespans import Lifespans
from tailrace.consumers.registry import Handler
from tailrace.streams.errors import Lost
from tailrace.streams.flows.envelope import PLACE, FlowNode, opened
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim
from tailrace.streams.operations import BrokenOperation, Operation, call, word
from tailrace.streams.options import handed_options
from tailrace.streams.policies import Policy, rules_for
from tailrace.streams.process.logs import about, get_logger
from tailrace.streams.process.tracing import AttemptSpan, current_traceparent, enabled
from tailrace.streams.store.commit import Committer

log = get_logger()

OUTCOMES = {"again": "", "mute": "lost"}  # by what the store said; empty: as it was asked for
CHILD = 2  # the end of a child takes the server twice as long as that of another job: it goes to the parent as well
LOOK_SECONDS = 0.1  # how soon the time of an attempt is looked at again that was over while the store was asked
ECHO_SECONDS = 1.0  # after the end of a lost attempt: the answers to its last writes are here by then


class ProcessContext(Struct, frozen=True):
    """Objects that the runners of one consumer process share."""

    owner: str
    handlers: Mapping[str, Handler]
    offload: Offload
    table: LeaseTable  # shared with the heart
    lifespans: Lifespans  # of the handlers, open while they run
    obey_seconds: float = 5.0  # how long a cancelled handler may take to stop
    tell_refused: Callable[[str, int, int], None] = lambda job_id, attempt, writes: None  # of late writes
    counters: ConsumerCounters = field(default_factory=ConsumerCounters)
    outbound: Outbound | None = None  # None: no attempt submits jobs


class Runner:
    """The attempts of one platform in this process."""

    def __init__(
        self,
        keys: PlatformKeys,
        number: int,
        policy: Policy,
        process: ProcessContext,
        committer: Committer,
        done: Callable[[], None],
    ) -> None:
        """`number` is the platform's in the table; `done` is called when an attempt leaves its slot."""
        self._keys = keys
        self._number = number
        self.policy = policy  # of the attempts to come; it may be changed
        self._process = process
        self._handlers = dict(process.handlers)
        self._table = process.table
        self._counters = process.counters[keys.platform]
        self._note_wait, self._note_run = self._counters.waits.noted.append, self._counters.runs.noted.append
        self._counters.batches, self._counters.trips = committer.batches, committer.trips
        self._committer = committer
        self.say = committer.say
        self._done = done
        self.running: dict[str, RunningAttempt] = {}
        self.released: list[asyncio.Task[None]] = []  # handlers that were asked to stop when all was handed back
        self._refused: dict[str, str] = {}  # jobs that came too late, by nonce: they are handed back just now

    def begin(self, claim: Claim, *, alone: bool = False) -> None:
        # A plain task: a task group and a deadline object for each job would cost more than a short job itself.
        rules = rules_for(self.policy, claim.options)
        now, seconds = time.monotonic(), seconds_left(rules, claim.age_seconds)
        slot = self._table.hold(self._number, claim.nonce, 0.0 if seconds is None else now + seconds)
        running = RunningAttempt(claim, rules, slot, alone, begun=now)
        self.running[claim.nonce] = running
        self._counters.started += 1
        if claim.waited_seconds is not None:
            self._note_wait(claim.waited_seconds)
        loop = asyncio.get_running_loop()
        running.task = loop.create_task(self._live(running))
        if seconds is not None:
            running.timer = loop.call_later(seconds, self._time_out, running)

    def _time_out(self, running: RunningAttempt) -> None:
        if running.settling or running.ending:
            return
        if running.waiting:
            running.timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._time_out, running)
            return
        log.warning("attempt_timed_out", job=self._keys.id(running.claim.key), attempt=running.claim.number)
        self._stop(running, timed_out(running.rules, running.claim.age_seconds))

    def stop(self, nonce: str) -> None:
        """The job was asked to stop. However the attempt is settled, the store ends the job cancelled."""
        self._stop_once(nonce, Released())

    def _stop_once(self, nonce: str, ending: Outcome) -> None:
        """The heart repeats what it knows: an attempt that is stopping is not cancelled again in its clean-up."""
        running = self.running.get(nonce)
        if running and running.ending is None and not running.settling and not running.waiting:
            self._stop(running, ending)

    def _stop(self, running: RunningAttempt, ending: Outcome) -> None:
        """Cancel a handler; one that does not care is settled all the same, and refused from then on."""
        self._end(running, ending)
        self._table.tell(running.slot)
        if running.timer:
            running.timer.cancel()

        def insist() -> None:
            if not running.settling:
                log.warning("handler_does_not_stop", job=self._keys.id(running.claim.key), kind=running.claim.kind)
                self._settle(running, ending)

        running.timer = asyncio.get_running_loop().call_later(self._process.obey_seconds, insist)

    def lose(self, nonce: str) -> None:
        """This consumer no longer owns the job: end the attempt without an outcome."""
        self._stop_once(nonce, Mute())

    def release_all(self) -> None:
        """Hand everything back now. The handlers are cancelled; what they still write is refused by the fence."""
        for running in list(self.running.values()):
            if not running.settling:
                self._end(running, Released())
                self._settle(running, Released())
                if running.task:
                    self.released.append(running.task)

    def refuse(self, claim: Claim) -> None:
        """Hand back a job that came too late: this consumer is about to leave."""
        self._refused[claim.nonce] = claim.key
        operation = call.release(self._keys, key=claim.key, nonce=claim.nonce, max_starts=self.policy.max_starts)

        def taken_back(_: Any) -> None:
            del self._refused[claim.nonce]

        self._committer.say(operation, taken_back)

    def unsettled(self) -> list[str]:
        """The keys of jobs that are still ours to settle, as far as they are known."""
        return [*(running.claim.key for running in self.running.values()), *self._refused.values()]

    @property
    def busy(self) -> int:
        """How many jobs are still ours to settle."""
        return len(self.running) + len(self._refused)

    def _end(self, running: RunningAttempt, ending: Outcome) -> None:
        running.ending = ending
        if running.task:
            running.task.cancel()

    async def _live(self, running: RunningAttempt) -> None:
        """Run an attempt to its outcome in any case: one without an outcome would count as running forever."""
        claim, platform, owner = running.claim, self._keys.platform, self._process.owner
        about(job=self._keys.id(claim.key), attempt=claim.number, platform=platform, owner=owner)
        outcome: Outcome
        try:
            handler, attempt, children = self._open(running)
            if enabled():
                running.span = self._span(attempt)
                await attempt.trace(running.span)
            if claim.number > 1:
                await attempt.resume()
            if children:
                await attempt.join_flow(children)
            try:
                doing = handler.function(attempt) if handler.direct else self._process.offload.call(handler, attempt)
                outcome = Completed(await doing)
            except Delay as later:
                outcome = Delayed(later.seconds, hold=isinstance(later, RateLimited))
            except Waiting:
                outcome = Requeued()
            if attempt.busy:
                await attempt.close()
        except BaseException as error:
            outcome = outcome_of(error, running.ending)
            if running.attempt and running.attempt.busy:
                with suppress(asyncio.CancelledError):  # `insist`, or `release_all`, settles it
                    await running.attempt.close()
        if not running.settling:
            self._settle(running, outcome)

    def _open(self, running: RunningAttempt) -> tuple[Handler, Attempt[Any], Sequence[FlowNode]]:
        """The handler of a job, the attempt it is given, and the children that the job carries.

        Raises `Misfit` when the job fits no handler.
        """
        claim = running.claim
        handler = self._handlers.get(claim.kind)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise Misfit("UnknownKind", f"no handler for the kind {claim.kind}; known here are {known}")
        try:
            claim, children = opened(claim)
            args = handler.decode(claim.args)
        except Exception as error:  # a struct's own __post_init__ may raise anything
            raise Misfit("WrongArgs", f"the args do not fit the kind {claim.kind}: {misfit(error)}") from error
        attempt = Attempt(claim, args, self._process.owner, self._keys, running.rules, self)
        if handler.lifespan:
            attempt.state = self._process.lifespans.state(handler.lifespan)
        running.attempt = attempt
        return handler, attempt, children

    def _span(self, attempt: Attempt[Any]) -> AttemptSpan:
        claim = attempt.claim
        facts: dict[str, str | int] = {
            "tailrace.job.id": attempt.job.id,
            "tailrace.platform": attempt.job.platform,
            "tailrace.attempt": attempt.number,
            "tailrace.worker": attempt.worker,
        }
        return AttemptSpan(claim.kind, facts, attempt.traceparent, claim.waited_seconds)

    def _settle(self, running: RunningAttempt, outcome: Outcome) -> None:
        """Send the outcome. The place is free from now on, so that the same call can bring the next job; while more is
        to be said than a call holds, only when the store has answered: else claims would outrun the outcomes."""
        if isinstance(outcome, Mute):
            self._leave(running)
            self._finished(running, "mute")
            return
        try:
            operation = self._operation(running, outcome)
        except Exception as error:  # such as a delay that is not a number: the attempt must be settled all the same
            operation = self._operation(running, Failed(failure_of(error)))
        times = CHILD if running.claim.options.startswith(PARENT) else 1
        before = running.attempt.last_reports() if running.attempt else None
        self._committer.say(operation, lambda answer: self._settled(running, answer), times, before)
        running.keeps_slot = running.keeps_slot or self._committer.behind
        self._leave(running)

    def _leave(self, running: RunningAttempt) -> None:
        """The attempt is over, and its slot is free."""
        running.settling = True
        self._note_run(time.monotonic() - running.begun)
        self._table.settle(running.slot)
        if running.timer:
            running.timer.cancel()
        if not running.keeps_slot:
            self._done()

    def waiting(self, attempt: Attempt[Any], seconds: float | None) -> dict[str, Any]:
        """The arguments of `wait` from an attempt's rules; it waits no longer than its job may take in all."""
        running = self.running.get(attempt.fence)
        if running is None or running.settling:
            raise Lost(attempt.job.id, attempt.number)
        running.waiting = True
        rules = running.rules
        if rules.lifetime_seconds:
            left = max(0.0, rules.lifetime_seconds - running.age_seconds)
            seconds = left if seconds is None else min(left, seconds)
        delay_ms = "" if seconds is None else round(seconds * 1000)
        return {"max_starts": rules.max_starts, "delay_ms": delay_ms, "order": rules.order}

    def waited(self, attempt: Attempt[Any], answer: Any, awaits: str) -> bool:
        """Take the answer of the store to `wait`; whether the attempt is over. Its handler may have ended by now."""
        running = self.running.get(attempt.fence)
        if running is None:
            return True
        running.waiting = False
        if isinstance(answer, list) or answer in (b"timeout", b"lost"):
            return False
        if not running.settling:
            running.outcome = "delayed" if awaits == "sleep" else "awaiting"
            self._leave(running)
            self._settled(running, answer)
        return True

    async def spawn(self, claim: Claim, child: bool, platform: str, kind: str, jobs: NewJobs, told: Told) -> list[Any]:
        """Submit the jobs of an attempt; what the store answers, page by page."""
        outbound, (options, place) = self._process.outbound, told
        assert outbound
        options = {"traceparent": trace_of(claim), **options}
        new = await outbound.check(child, platform, kind, jobs, options)
        return await outbound.spawn(self._keys, claim, new, place)

    async def spawn_flow(self, claim: Claim, nodes: Sequence[FlowNode]) -> list[Any]:
        """Submit the children that a job carries."""
        outbound = self._process.outbound
        assert outbound
        new = outbound.nodes(self._keys.id(claim.key), nodes, trace_of(claim))
        return await outbound.spawn(self._keys, claim, new, PLACE)

    def _operation(self, running: RunningAttempt, outcome: Outcome) -> Operation:
        claim = running.claim
        handler = self._handlers.get(claim.kind)
        backoff = handler.backoff if handler else None
        operation, failed = operation_of(self._keys, self._process.owner, running, outcome, backoff)
        if failed:
            error = failed.error
            trace = {"exception": error.traceback} if error.traceback else {}
            why = f"{error.type}: {error.message}"
            log.warning("attempt_failed", job=self._keys.id(claim.key), attempt=claim.number, error=why, **trace)
            self._counters.fail(claim.kind if handler else "unknown", error.type)
            running.error = error.type
        return operation

    def _settled(self, running: RunningAttempt, answer: Any) -> None:
        how, entry = "ok", ""
        if answer == b"large":
            self._committer.say(self._operation(running, TOO_LARGE), lambda answer: self._settled(running, answer))
            return
        if answer != b"ok":
            try:
                how = word(answer)
            except BrokenOperation as error:
                how, job = "broken", self._keys.id(running.claim.key)
                log.error("settle_broken", job=job, attempt=running.claim.number, error=str(error))
            if how.startswith("sent "):
                how, entry = "ok", how.removeprefix("sent ")
        self._finished(running, how, entry)

    def _finished(self, running: RunningAttempt, how: str, entry: str = "") -> None:
        """`entry`: of the outbox, which tells the parent of the job."""
        claim = running.claim
        if self.running.pop(claim.nonce, None):
            self._table.free(running.slot)
            if running.keeps_slot:
                self._done()
        ended = running.outcome if how == "ok" else OUTCOMES.get(how, how) or running.outcome
        self._counters.end(ended)
        if running.span:
            running.span.end(ended, running.error)
        if self._process.outbound and (claim.options or how == "cancelled"):
            self._process.outbound.ended(
                self._keys, claim, cancelled=how == "cancelled", entry=entry, event=running.completion
            )
        if running.attempt and (why := running.attempt.unshown):
            log.warning("report_not_shown", job=self._keys.id(claim.key), attempt=claim.number, error=str(why))
        if how in {"lost", "mute"}:
            log.warning("attempt_lost", job=self._keys.id(claim.key), attempt=claim.number)
            asyncio.get_running_loop().call_later(ECHO_SECONDS, self._tell_refused, running, how == "lost")

    def _tell_refused(self, running: RunningAttempt, settled_late: bool) -> None:
        writes = (running.attempt.refused if running.attempt else 0) + settled_late
        if writes:
            self._counters.refused += writes
            self._process.tell_refused(self._keys.id(running.claim.key), running.claim.number, writes)


def trace_of(claim: Claim) -> str | None:
    """The traceparent of what an attempt submits: of the open span, else that of its own job."""
    return current_traceparent() or handed_options(claim.options).traceparent
