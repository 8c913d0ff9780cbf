"""The attempt of a handler in the loop: its methods, and how its writes reach the store."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from tailrace.consumers.attempts.facts import Args, Opened
from tailrace.consumers.attempts.flows import Flows, too_many
from tailrace.consumers.attempts.reports import check_report, report_event
from tailrace.consumers.attempts.steps import OURS, SPAN
from tailrace.consumers.outcomes import Rest
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.flows.envelope import PLACE, FlowNode
from tailrace.streams.flows.spawning import flow_keys
from tailrace.streams.keys import PlatformKeys, join_id
from tailrace.streams.messages import Claim, Job, Step, encode
from tailrace.streams.operations import Operation, call, checked, word
from tailrace.streams.policies import Policy
from tailrace.streams.process.tracing import AttemptSpan
from tailrace.streams.replies import to_steps

LARGEST_HISTORY = 16 * 1024 * 1024  # what one attempt may report in all: a history is for people to read
WHY_NOT = {
    "conflict": "another job has its id",
    "duplicate": "another job has its dedupe key; a child cannot share one",
    "order": "a child cannot have the order_key that its parent holds: each would wait for the other",
    "corrupt": "its keys in the store are corrupt",
}
MOST_NAMED = 20  # steps named in the report of a resumed attempt

Heard = Callable[[Any], None]
NewJobs = Sequence[tuple[str, bytes]]  # keys and args
Told = tuple[dict[str, Any], str]  # their options, and the place in the code that brings them


class Desk(Protocol):
    """The part of the runner that an attempt calls."""

    say: Callable[[Operation, Heard], None]

    def waiting(self, attempt: "Attempt[Any]", seconds: float | None) -> dict[str, Any]:
        """Note that the attempt is about to wait; the arguments of `wait` that follow from its rules."""

    def waited(self, attempt: "Attempt[Any]", answer: Any, awaits: str) -> bool:
        """Take the answer of the store; whether the attempt is over."""

    async def spawn(self, claim: Claim, child: bool, platform: str, kind: str, jobs: NewJobs, told: Told) -> list[Any]:
        """Submit jobs; what the store answers, page by page."""

    async def spawn_flow(self, claim: Claim, nodes: Sequence[FlowNode]) -> list[Any]:
        """Submit the children that a job carries."""


class Attempt(Flows[Args, Opened]):
    """An attempt as its handler sees it.

    Everything it writes carries its fence. When the job was taken over by another attempt, or has ended, the next
    write raises `Lost` and leaves no trace.
    """

    __slots__ = ("_answer", "_desk", "_keys", "_reported", "_reports", "_rules", "_shown", "_turns", "refused")

    def __init__(self, claim: Claim, args: Args, worker: str, keys: PlatformKeys, rules: Policy, desk: Desk) -> None:
        super().__init__(Job(keys.platform, claim.key, claim.kind, claim.args), claim, args, worker)
        self.refused = 0  # writes that came after the job was taken over
        self._keys = keys
        self._rules = rules
        self._desk = desk
        self._reports = 0
        self._reported = 0  # bytes
        self._shown: set[Step] | None = None
        self._memory = None  # of saved values, once it is asked for
        self._answer: asyncio.Future[Any] | None = None  # to the operation on its way to the store: one at a time
        self._turns: tuple[asyncio.Future[None], ...] = ()  # of those that wait until the store has answered

    async def progress(self, step: Step, of: int | None = None, message: str | None = None, data: Any = None) -> None:
        """Show a step to the clients that watch the job. A second report of the same step by this attempt is not shown.

        `step` is a number from 0, up to `of` where that is said, or a name. What cannot be shown is a `TypeError` or a
        `ValueError` that names the argument, and nothing is sent; a job with `max_events` events is a `ValueError` too.
        Raises `Lost` when this attempt no longer owns its job, `Cancelled` when the job was asked to stop. Waits while
        the store is unavailable.
        """
        check_report(step, of, message)
        if self._shown is None:
            self._shown = set()
        elif step in self._shown:
            return
        event = report_event(self.number, self.worker, step, of, message, data)
        self._reported += len(event)
        if self._reported > LARGEST_HISTORY:
            raise ValueError("the reports of one attempt have over 16 MB in all; report less, or less often")
        self._shown.add(step)
        if self.busy:
            await self.quiet()
        if self._allowed(await self._report(event)) == "full":
            self._shown.discard(step)
            raise ValueError(
                f"job {self.job.id} has {self._rules.max_events} events, as many as max_events of its platform allows; "
                f"step {step!r} is not shown: report less often, or raise max_events"
            )

    def _report(self, event: bytes) -> asyncio.Future[Any]:
        self._reports += 1  # numbered only when it is sent
        key, fence, most = self.claim.key, self.claim.nonce, self._rules.max_events
        said = call.report(self._keys, key=key, nonce=fence, number=self._reports, most=most, event=event)
        return self._sent(said, self._written)

    async def resume(self) -> None:
        """Read what earlier attempts have saved, and report it: the history shows which steps are not run again."""
        names = (await self.recall()).names()
        if names:
            listed = ", ".join(names[:MOST_NAMED]) + (
                f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
            )
            self._shown = {"resumed"}
            # Its answer is not waited for: the next write comes after it, and hears the same.
            self._report(report_event(self.number, self.worker, "resumed", None, f"saved before: {listed}", None))

    async def trace(self, span: AttemptSpan) -> None:
        """Link the span of this attempt to that of the one before, and leave its own for the next one."""
        if before := (await self.recall()).saved.get(OURS + SPAN):
            span.link(msgspec.json.decode(before, type=str))
        await self.quiet()
        # Its answer is not waited for: the next write comes after it, and hears the same.
        value, most = encode(span.traceparent), self._rules.max_step_bytes
        self._sent(call.checkpoint(self._keys, name=OURS + SPAN, value=value, most=most, **self._own), self._written)

    async def ask(self, verb: str, *args: Any) -> Any:
        return await VERBS[verb](self, *args)

    async def _save(self, name: str, value: bytes) -> None:
        said = call.save(self._keys, name=name, value=value, most=self._rules.max_step_bytes, **self._own)
        await self._kept(name, said)

    async def _checkpoint(self, name: str, value: bytes) -> None:
        said = call.checkpoint(self._keys, name=name, value=value, most=self._rules.max_step_bytes, **self._own)
        await self._kept(name.removeprefix(OURS), said)

    async def _kept(self, name: str, operation: Operation) -> None:
        await self.quiet()
        most = self._rules.max_step_bytes
        if self._allowed(await self._sent(operation, self._written)) == "full":
            raise ValueError(
                f"the steps of job {self.job.id} have all of the {most} bytes that max_step_bytes of "
                f"its platform allows; step {name!r} is not saved: save less, or raise max_step_bytes"
            )

    async def _recall(self) -> dict[str, bytes]:
        if self._memory:  # a handler in a thread or a process asks
            return self._memory.saved
        saved: dict[str, bytes] = {}
        cursor = "0"
        while cursor:
            await self.quiet()
            said = call.recall(self._keys, cursor=cursor, **self._own)
            part = to_steps(checked(await self._sent(said, self._answered)))
            if part is None:
                raise Lost(self.job.id, self.number)
            cursor, steps = part
            saved |= steps
        return saved

    async def _wait(self, awaits: str, place: str, name: str, seconds: float | None, fails: bool) -> bytes | None:
        """The data of a signal, else empty; None: it did not come in time. Raises `Rest` when the attempt is over."""
        await self.quiet()
        rules = self._desk.waiting(self, seconds)
        about = {"awaits": awaits, "place": place, "name": name, "fails": int(fails), **rules}
        over = False

        def heard(answer: Any) -> None:
            nonlocal over
            over = self._desk.waited(self, answer, awaits)
            self._written(answer)

        answer = checked(await self._sent(call.wait(self._keys, **self._own, **about), heard))
        if over:
            raise Rest
        if isinstance(answer, list):
            data: bytes = answer[1]
            return data
        if self._allowed(answer) != "timeout":
            raise AssertionError(f"wait answered {answer!r}")
        return None

    async def _join(self, number: str, ids: Sequence[str]) -> list[bytes]:
        await self.quiet()
        said = call.join(self._keys, number=number, ids=" ".join(ids), **self._own)
        answer = checked(await self._sent(said, self._written))
        if not isinstance(answer, list):
            self._allowed(answer)
        found: list[bytes] = answer
        return found

    async def _spawn(
        self, child: bool, platform: str, kind: str, jobs: NewJobs, options: dict[str, Any], place: str
    ) -> list[str]:
        await self.quiet()
        pages = await self._desk.spawn(self.claim, child, platform, kind, jobs, (options, place))
        return self._brought([join_id(platform, key) for key, _ in jobs], pages)

    async def join_flow(self, nodes: Sequence[FlowNode]) -> None:
        """Submit the children that this job carries, and wait until all of them have completed."""
        memory = await self.recall()
        keys = flow_keys(self.job.id, (node.kind for node in nodes))
        ids = [join_id(node.platform, key) for node, key in zip(nodes, keys, strict=True)]
        if not memory.has_spawned(PLACE, len(nodes)):
            self._brought(ids, await self._desk.spawn_flow(self.claim, nodes))
        memory.children = [(each, node.kind) for each, node in zip(ids, nodes, strict=True)]
        await self._all_ends(await self.children(), fails=True)

    async def _children(self) -> list[tuple[str, str]]:
        return (await self.recall()).children

    def _brought(self, ids: Sequence[str], pages: Sequence[Any]) -> list[str]:
        """The answers of `spawn`, job by job. Raises when one was refused."""
        answers: list[str] = []
        for page in pages:
            if not isinstance(page, list):
                self._refuse_spawn(page)
            answers += [each.decode() for each in page]
        for each, answer in zip(ids, answers, strict=True):
            if answer in WHY_NOT:
                raise ValueError(f"job {each} cannot be submitted: {WHY_NOT[answer]}")
        return answers

    def _refuse_spawn(self, answer: Any) -> None:
        if answer == b"lost":
            self.refused += 1
        if self._allowed(answer) == "full":
            raise too_many(self.job.id)

    @property
    def _own(self) -> dict[str, str]:
        """The arguments that every operation of this attempt has."""
        return {"key": self.claim.key, "nonce": self.claim.nonce}

    def _sent(self, operation: Operation, heard: Heard) -> asyncio.Future[Any]:
        """Send an operation under the fence; no other one is under way. The future has the answer.

        `heard` gets the answer as well, also when the handler was cancelled and does not wait for it any more.
        """
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._desk.say(operation, heard)
        return answer

    def _written(self, answer: Any) -> None:
        if answer == b"lost":
            self.refused += 1
        self._answered(answer)

    def _answered(self, answer: Any) -> None:
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

    @property
    def busy(self) -> bool:
        """Whether an operation of it has not been answered."""
        return self._answer is not None

    async def quiet(self) -> None:
        """Wait until all operations sent so far are answered: one that is sent again must not be overtaken."""
        while self.busy:
            turn = asyncio.get_running_loop().create_future()
            self._turns = (*self._turns, turn)
            await turn


VERBS: dict[str, Callable[..., Any]] = {
    "progress": Attempt.progress,
    "recall": Attempt._recall,
    "save": Attempt._save,
    "checkpoint": Attempt._checkpoint,
    "wait": Attempt._wait,
    "spawn": Attempt._spawn,
    "join": Attempt._join,
    "children": Attempt._children,
}
"""The methods of an attempt that use the store, for handlers in threads and processes."""
