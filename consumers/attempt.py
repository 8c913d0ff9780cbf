"""The attempt of a handler in the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tailrace.consumers.attempts.facts import Args, Opened
from tailrace.consumers.attempts.flows import too_many
from tailrace.consumers.attempts.reports import report_event
from tailrace.consumers.attempts.saying import NewJobs, Report, Saying
from tailrace.consumers.attempts.steps import OURS, SPAN
from tailrace.consumers.outcomes import Rest
from tailrace.streams.errors import Lost
from tailrace.streams.flows.envelope import PLACE, FlowNode
from tailrace.streams.flows.spawning import flow_keys
from tailrace.streams.keys import join_id
from tailrace.streams.messages import Step, encode
from tailrace.streams.operations import Operation, call, checked
from tailrace.streams.process.tracing import AttemptSpan
from tailrace.streams.replies import to_steps

WHY_NOT = {
    "conflict": "another job has its id",
    "duplicate": "another job has its dedupe key; a child cannot share one",
    "order": "a child cannot have the order_key that its parent holds: each would wait for the other",
    "corrupt": "its keys in the store are corrupt",
}
MOST_NAMED = 20  # steps named in the report of a resumed attempt


class Attempt(Saying[Args, Opened]):
    """An attempt as its handler sees it.

    Everything it writes carries its fence. When the job was taken over by another attempt, or has ended, the next
    write raises `Lost` and leaves no trace.
    """

    __slots__ = ()

    async def resume(self) -> None:
        """Read what earlier attempts have saved, and report it: the history shows which steps are not run again."""
        names = (await self.recall()).names()
        if names:
            listed = ", ".join(names[:MOST_NAMED]) + (
                f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
            )
            self._shown = {"resumed"}
            # Its answer is not waited for: the next write comes after it, and hears the same.
            event = report_event(self.number, self.worker, "resumed", None, f"saved before: {listed}", None)
            self._enqueue(Report("resumed", event, asyncio.get_running_loop().create_future()), now=True)

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

    def _progress(self, step: Step, of: int | None, message: str | None, data: Any, wait: bool) -> Awaitable[None]:
        return self.progress(step, of, message, data, wait=wait)

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


VERBS: dict[str, Callable[..., Any]] = {
    "progress": Attempt._progress,
    "flush": Attempt.flush,
    "recall": Attempt._recall,
    "save": Attempt._save,
    "checkpoint": Attempt._checkpoint,
    "wait": Attempt._wait,
    "spawn": Attempt._spawn,
    "join": Attempt._join,
    "children": Attempt._children,
}
"""The methods of an attempt that use the store, for handlers in threads and processes."""
