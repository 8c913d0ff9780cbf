"""Runs the attempts of one platform: begin, decode, run, settle, and tell how it ended."""

import asyncio
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from consumers.attempt import LARGEST_EVENT, Attempt
from consumers.outcomes import Completed, Failed, Mute, Outcome, Released
from consumers.page import Page
from consumers.registry import Handler
from streams.commit import Committer
from streams.errors import Lost
from streams.events import event_body
from streams.keys import PlatformKeys
from streams.messages import Claim, Failure, Job
from streams.states import Status
from streams.transitions import BrokenOperation, Operation, complete, fail, release, word

log = structlog.get_logger()

LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 8000


class Running:
    """An attempt under way, as the runner holds it."""

    __slots__ = ("claim", "ending", "settling", "slot", "task")

    def __init__(self, claim: Claim, slot: int) -> None:
        self.claim = claim
        self.slot = slot
        self.task: asyncio.Task[None] | None = None
        self.ending: Outcome | None = None  # decided from outside: the attempt is cancelled to end so
        self.settling = False  # its outcome is on the way to the store


class Runner:
    """The attempts of one platform in this process."""

    def __init__(
        self,
        keys: PlatformKeys,
        owner: str,
        handlers: Mapping[str, Handler],
        page: Page,
        number: int,
        done: Callable[[], None],
    ) -> None:
        """`number` is the platform's on the page; `done` is called when an attempt leaves its place."""
        self._keys = keys
        self._owner = owner
        self._handlers = handlers
        self._page = page
        self._number = number
        self._done = done
        self.running: dict[str, Running] = {}
        self._refused = 0
        self.committer: Committer | None = None  # set by the consumer: runner and committer need each other

    def begin(self, claim: Claim) -> None:
        # A plain task: a task group and a deadline object for each job would cost more than a short job itself.
        running = Running(claim, self._page.hold(self._number, claim.nonce))
        self.running[claim.nonce] = running
        running.task = asyncio.get_running_loop().create_task(self._live(running))

    def lose(self, nonce: str) -> None:
        """The store says that this attempt is no longer ours: end it, quietly."""
        self._end(nonce, Mute())

    def release_all(self) -> None:
        """Hand everything back now. The handlers are cancelled; whatever they still do is refused by the fence."""
        for nonce, running in list(self.running.items()):
            if not running.settling:
                self._end(nonce, Released())
                self._settle(running, Released())

    def refuse(self, claim: Claim) -> None:
        """Hand back a job that came too late: this consumer is about to leave."""
        assert self.committer is not None
        self._refused += 1
        self.committer.say(release(self._keys, claim.key, claim.nonce), self._taken_back)

    def _taken_back(self, _: Any) -> None:
        self._refused -= 1

    @property
    def busy(self) -> int:
        """How many jobs are still ours to settle."""
        return len(self.running) + self._refused

    def _end(self, nonce: str, ending: Outcome) -> None:
        running = self.running.get(nonce)
        if running and not running.settling and running.task:
            running.ending = ending
            running.task.cancel()

    async def _live(self, running: Running) -> None:
        """Whatever a handler does, its attempt ends in an outcome: one that never settled would run for ever."""
        try:
            outcome = await self._outcome(running)
        except asyncio.CancelledError as error:
            # Nobody here asked for it: the handler cancelled itself, which is its failure.
            outcome = running.ending or Failed(failure_of(error))
        except BaseException as error:
            outcome = Failed(failure_of(error))
        if not running.settling:
            self._settle(running, outcome)

    async def _outcome(self, running: Running) -> Outcome:
        claim = running.claim
        handler = self._handlers.get(claim.kind)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            return Failed(Failure("UnknownKind", f"no handler for the kind {claim.kind}; known here are {known}"))
        try:
            args = handler.decode(claim.args)
        except Exception as error:  # a struct's own __post_init__ may raise anything
            return Failed(Failure("WrongArgs", f"the args do not fit the kind {claim.kind}: {_said_by(error)}"))
        job = Job(self._keys.platform, claim.key, claim.kind, claim.args)
        assert self.committer is not None
        attempt = Attempt(job, claim.number, claim.nonce, args, self._owner, self._keys, self.committer.ask)
        try:
            result = await handler.function(attempt)
            await attempt.quiet()
            return Completed(result)
        except Lost:
            return Mute()

    def _settle(self, running: Running, outcome: Outcome) -> None:
        """Send the outcome. The place is free from now on, so that the same call can bring the next job."""
        running.settling = True
        self._done()
        if isinstance(outcome, Mute):
            self._finished(running, "lost")
            return
        assert self.committer is not None
        self.committer.say(self._operation(running.claim, outcome), lambda answer: self._settled(running, answer))

    def _operation(self, claim: Claim, outcome: Outcome) -> Operation:
        if isinstance(outcome, Released):
            return release(self._keys, claim.key, claim.nonce)
        if isinstance(outcome, Completed):
            try:
                event = self._last_event(claim, Status.COMPLETED, result=outcome.result)
            except Exception as error:  # encoding runs code of the result's own types
                message = f"the result cannot be kept as JSON: {_said_by(error)}"
            else:
                if len(event) <= LARGEST_EVENT:
                    return complete(self._keys, claim.key, claim.nonce, event)
                message = f"the result has {len(event)} bytes; over 1 MB does not go into the store"
            outcome = Failed(Failure("WrongResult", message))
        assert isinstance(outcome, Failed)
        why = f"{outcome.error.type}: {outcome.error.message}"
        log.warning("attempt_failed", job=self._keys.id(claim.key), attempt=claim.number, error=why)
        return fail(self._keys, claim.key, claim.nonce, self._last_event(claim, Status.FAILED, error=outcome.error))

    def _last_event(self, claim: Claim, status: Status, **more: Any) -> bytes:
        return event_body(claim.number, status, self._owner, **more)

    def _settled(self, running: Running, answer: Any) -> None:
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

    def _finished(self, running: Running, how: str) -> None:
        claim = running.claim
        if self.running.pop(claim.nonce, None):
            self._page.free(running.slot)
        if how == "lost":
            log.warning("attempt_lost", job=self._keys.id(claim.key), attempt=claim.number)


def failure_of(error: BaseException) -> Failure:
    """An exception as a client sees it, bounded."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:
        text = "the traceback cannot be shown"
    return Failure(type(error).__name__, _said_by(error)[:LONGEST_MESSAGE], _safe(text)[-LONGEST_TRACEBACK:])


def _said_by(error: BaseException) -> str:
    try:
        return _safe(str(error))
    except Exception:
        return "it cannot say what is wrong: its own __str__ fails"


def _safe(text: str) -> str:
    """Without lone surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
