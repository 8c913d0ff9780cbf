"""The way of an attempt to the store: one operation at a time, and the reports that wait as one of them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tailrace.consumers.attempts.facts import Args, Opened
from tailrace.consumers.attempts.flows import Flows
from tailrace.consumers.attempts.reports import check_report, report_event
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.flows.envelope import FlowNode
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Job, Step
from tailrace.streams.operations import Operation, call, word
from tailrace.streams.policies import Policy
from tailrace.streams.store.commit import Heard, Said

LARGEST_HISTORY = 16 * 1024 * 1024  # what one attempt may report in all: a history is for people to read
MOST_QUEUED = 40  # reports that wait without their handler, and that one operation says
QUEUED_BYTES = 64 * 1024  # of these reports; a larger one is waited for

NewJobs = Sequence[tuple[str, bytes]]  # keys and args
Told = tuple[dict[str, Any], str]  # their options, and the place in the code that brings them


class Desk(Protocol):
    """The part of the runner that an attempt calls."""

    say: Callable[..., None]  # as `Committer.say`

    def waiting(self, attempt: Any, seconds: float | None) -> dict[str, Any]:
        """Note that the attempt is about to wait; the arguments of `wait` that follow from its rules."""

    def waited(self, attempt: Any, answer: Any, awaits: str) -> bool:
        """Take the answer of the store; whether the attempt is over."""

    async def spawn(self, claim: Claim, child: bool, platform: str, kind: str, jobs: NewJobs, told: Told) -> list[Any]:
        """Submit jobs; what the store answers, page by page."""

    async def spawn_flow(self, claim: Claim, nodes: Sequence[FlowNode]) -> list[Any]:
        """Submit the children that a job carries."""


class Report(NamedTuple):
    """A report that the store has not answered."""

    step: Step
    event: bytes
    heard: asyncio.Future[Any] | None  # None: nothing waits for the answer


class Saying(Flows[Args, Opened]):
    """An attempt as far as it speaks to the store: one operation is under way, and others wait for their turn."""

    __slots__ = (
        *("_answer", "_desk", "_held_back", "_keys", "_lined_up", "_owed", "_queue", "_queued", "_reported"),
        *("_reports", "_rules", "_said", "_shown", "_soon", "_turns", "busy", "refused"),
    )

    def __init__(self, claim: Claim, args: Args, worker: str, keys: PlatformKeys, rules: Policy, desk: Desk) -> None:
        super().__init__(Job(keys.platform, claim.key, claim.kind, claim.args), claim, args, worker)
        self.busy = False  # whether an operation of it has not been answered
        self.refused = 0  # writes that came after the job was taken over
        self._keys = keys
        self._rules = rules
        self._desk = desk
        self._memory = None  # of saved values, once it is asked for
        self._answer: asyncio.Future[Any] | None = None  # to the operation under way, unless that is reports
        self._said: Sequence[Report] = ()  # the reports under way
        self._turns: tuple[asyncio.Future[None], ...] = ()  # of what waits until the store has answered
        self._queue: list[Report] = []
        self._queued = 0  # bytes of these
        self._lined_up = False  # whether the queue has one of these turns
        self._soon: asyncio.Handle | None = None  # it is said when the handler gives way
        self._held_back = False  # the queue goes with the end of the attempt
        self._owed: Exception | None = None  # the error of a report that nothing waited for
        self._shown: set[Step] | None = None
        self._reports = 0
        self._reported = 0  # bytes

    async def progress(
        self, step: Step, of: int | None = None, message: str | None = None, data: Any = None, *, wait: bool = True
    ) -> None:
        """Show a step to the clients that watch the job. A second report of the same step by this attempt is not shown.

        `step` is a number from 0, up to `of` where that is said, or a name. What cannot be shown is a `TypeError` or a
        `ValueError` that names the argument, and nothing is sent; a job with `max_events` events is a `ValueError` too.
        Raises `Lost` when this attempt no longer owns its job, `Cancelled` when the job was asked to stop. Waits while
        the store is unavailable.

        With `wait=False` it returns when the report is queued, unless 40 reports or 64 KB are; what it would have
        raised is raised by the next `progress` or by `flush`. Reports that are still queued when the process dies are
        lost.
        """
        check_report(step, of, message)
        if self._owed:
            self._pay()
        if self._shown is None:
            self._shown = set()
        elif step in self._shown:
            return
        event = report_event(self.number, self.worker, step, of, message, data)
        self._reported += len(event)
        if self._reported > LARGEST_HISTORY:
            raise ValueError("the reports of one attempt have over 16 MB in all; report less, or less often")
        self._shown.add(step)
        if wait or len(event) > QUEUED_BYTES:
            heard = asyncio.get_running_loop().create_future()
            self._enqueue(Report(step, event, heard), now=not (self.busy or self._held_back))
            self._judge(step, await heard)
            return
        while len(self._queue) >= MOST_QUEUED or self._queued + len(event) > QUEUED_BYTES:
            await self._empty()
        self._enqueue(Report(step, event, None))

    async def flush(self) -> None:
        """Wait until all reports so far are shown. Raises what `progress` would have raised for them."""
        await self.quiet()
        self._pay()

    def _enqueue(self, report: Report, *, now: bool = False) -> None:
        self._queue.append(report)
        self._queued += len(report.event)
        if now:
            self._say_reports()
        else:
            self._line_up()

    def _line_up(self) -> None:
        """Have the queue said in its turn; if nothing is on its way, as soon as the handler gives way."""
        if self.busy and not self._lined_up:
            self._lined_up = True
            self._turn().add_done_callback(self._in_turn)
        elif not (self.busy or self._soon):
            self._soon = asyncio.get_running_loop().call_soon(self._in_turn)

    def _in_turn(self, turn: Any = None) -> None:
        if turn:
            self._lined_up = False
        else:
            self._soon = None
        if self._queue and not self._held_back:
            if self.busy:
                self._line_up()
            else:
                self._say_reports()

    def _say_reports(self) -> None:
        said, heard, times = self._next_reports()
        self.busy = True
        self._desk.say(said, heard, times)
        if self._queue:
            self._line_up()

    def _next_reports(self) -> Said:
        """The queue as one operation, as far as it fits in one."""
        count, size = 1, len(self._queue[0].event)
        for report in self._queue[1:MOST_QUEUED]:
            if size + len(report.event) > QUEUED_BYTES:
                break
            count, size = count + 1, size + len(report.event)
        said, self._queue = self._queue[:count], self._queue[count:]
        self._queued -= size
        self._said = said
        self._reports += count  # numbered only when they are sent
        events = b"\n".join([report.event for report in said])
        key, fence, most = self.claim.key, self.claim.nonce, self._rules.max_events
        operation = call.report(self._keys, key=key, nonce=fence, number=self._reports, most=most, events=events)
        return operation, self._reports_answered, (3 + count) / 4

    def _reports_answered(self, answer: Any) -> None:
        said, self._said = self._said, ()
        if answer == b"lost":
            self.refused += len(said)
        self._answered(answer)
        shown = len(said)
        if isinstance(answer, bytes) and answer.startswith(b"full "):
            shown, answer = int(answer[5:]), b"full"
        for number, (step, _, heard) in enumerate(said):
            told = b"shown" if number < shown and answer == b"full" else answer
            if heard is None:
                self._owe(step, told)
            elif not heard.done():
                heard.set_result(told)

    def _owe(self, step: Step, answer: Any) -> None:
        """Keep the error of a report that nothing waits for: the next call raises it."""
        try:
            self._judge(step, answer)
        except Exception as error:
            self._owed = self._owed or error

    def _pay(self) -> None:
        owed, self._owed = self._owed, None
        if owed:
            raise owed

    def _judge(self, step: Step, answer: Any) -> None:
        """Raise the error that the answer to a report means for its handler."""
        if answer != b"shown" and self._allowed(answer) == "full":
            assert self._shown is not None
            self._shown.discard(step)
            raise ValueError(
                f"job {self.job.id} has {self._rules.max_events} events, as many as max_events of its platform allows; "
                f"step {step!r} is not shown: report less often, or raise max_events"
            )

    async def close(self) -> None:
        """Wait for the answer that is due, at the end of the handler; queued reports stay, and go with the end."""
        self._held_back = True
        try:
            while self.busy:
                await self._turn()
        finally:
            self._held_back = False
            if self._queue:
                self._line_up()

    def last_reports(self) -> Said | None:
        """The queued reports, for the call that brings the end. None while an operation is under way, which they might
        overtake."""
        said = self._next_reports() if self._queue and not self.busy else None
        self.busy = self.busy or said is not None
        if self._queue:
            self._line_up()
        return said

    @property
    def unshown(self) -> Exception | None:
        """The error of a report that the handler has not heard of; None for a lost or cancelled attempt."""
        return None if isinstance(self._owed, Lost | Cancelled) else self._owed

    @property
    def _own(self) -> dict[str, str]:
        """The arguments that every operation of this attempt has."""
        return {"key": self.claim.key, "nonce": self.claim.nonce}

    def _sent(self, operation: Operation, heard: Heard) -> asyncio.Future[Any]:
        """Send an operation under the fence; no other one is under way. The future has the answer.

        `heard` gets the answer as well, also when the handler was cancelled and does not wait for it any more.
        """
        self.busy = True
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._desk.say(operation, heard)
        return answer

    def _written(self, answer: Any) -> None:
        if answer == b"lost":
            self.refused += 1
        self._answered(answer)

    def _answered(self, answer: Any) -> None:
        self.busy = False
        waiting, self._answer = self._answer, None
        turns, self._turns = self._turns, ()
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
        if waiting and not waiting.done():
            waiting.set_result(answer)

    def _allowed(self, answer: Any) -> str:
        """The answer of the store. Raises `Lost` or `Cancelled` when this attempt has to stop."""
        said = word(answer)
        if said == "lost":
            raise Lost(self.job.id, self.number)
        if said == "cancelled":
            raise Cancelled(self.job.id, self.number)
        return said

    def _turn(self) -> asyncio.Future[None]:
        """A future that is done when the store has answered; the futures are done in their order."""
        turn = asyncio.get_running_loop().create_future()
        self._turns = (*self._turns, turn)
        return turn

    async def _empty(self) -> None:
        """Make room in the queue."""
        if self.busy:
            await self._turn()
        else:
            self._say_reports()

    async def quiet(self) -> None:
        """Wait until every operation so far is answered: one that is sent again must not be overtaken."""
        if self._queue:
            if self.busy:
                self._line_up()
            else:
                self._say_reports()
        while self.busy:
            await self._turn()
