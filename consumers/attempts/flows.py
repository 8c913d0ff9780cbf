"""Waits and children: waiting without holding a slot, and the jobs that an attempt spawns or submits."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

import msgspec

from tailrace.consumers.attempts.facts import Args, Opened
from tailrace.consumers.attempts.steps import Steps
from tailrace.consumers.attempts.values import from_value, shown
from tailrace.consumers.outcomes import ChildFailed, checked_seconds, seconds_until
from tailrace.producers.client import as_text
from tailrace.producers.declarations import plain
from tailrace.producers.producer import encode_args
from tailrace.producers.submissions import Submitted
from tailrace.streams.flows.spawning import MOST_CHILDREN, child_keys
from tailrace.streams.history.events import Event, read_body, read_result
from tailrace.streams.keys import check_word, join_id
from tailrace.streams.messages import Failure
from tailrace.streams.options import JobOptions
from tailrace.streams.states import State, Status

T = TypeVar("T")
OnFailure = Literal["fail", "collect", "ignore"]

JOIN_PAGE = 200  # children in one call: a millisecond or two of the server's time
UNKNOWN = b"?"  # what `join` says of a job that is not a child of this one


class Child(msgspec.Struct, Generic[T], frozen=True):
    """A job that this one has spawned; `join` gives its result."""

    id: str
    kind: str
    result: Any = Any  # the type


class Flows(Steps[Args, Opened]):
    """The methods of an attempt that wait, and those that spawn or submit jobs.

    A wait ends the attempt, so that nothing holds a slot, a connection or memory meanwhile. The next attempt runs the
    handler again from its top: steps, waits that are over, spawns and joins answer from the store. Places in the code
    are told apart by the `name` of a call, or by how many calls of its verb came before it in the attempt: their order
    must not change between attempts.
    """

    __slots__ = ()

    async def sleep(
        self, seconds: float | None = None, *, until: datetime | None = None, name: str | None = None
    ) -> None:
        """End this attempt, and start the next one after `seconds` or at a time. There, this call returns at once."""
        length = checked_seconds(seconds_until(seconds, until))
        memory = await self.recall()
        place = memory.place("sleep", name)
        if place not in memory.saved:
            await self.ask("wait", "sleep", place, "", length, False)
            memory.saved[place] = b"true"

    @overload
    async def wait_for(self, name: str, *, timeout: float | None = None) -> Any: ...  # noqa: ASYNC109

    @overload
    async def wait_for(self, name: str, *, timeout: float | None = None, type: type[T]) -> T: ...  # noqa: ASYNC109

    async def wait_for(self, name: str, *, timeout: float | None = None, type: Any = Any) -> Any:  # noqa: ASYNC109
        """The data of the signal of this name, as `type` has it. A signal that came before is there at once.

        Raises `TimeoutError` when it has not come in `timeout` seconds. That is remembered: the same call in a later
        attempt raises it again, even if the signal has come meanwhile.
        """
        check_word(name, "name")
        if timeout is not None:
            checked_seconds(timeout)
        memory = await self.recall()
        place = memory.place(f"signal {name}", None)
        data = None if place in memory.saved else await self.ask("wait", "signal", place, name, timeout, False)
        if data is None:
            memory.saved[place] = b'"timeout"'
            raise TimeoutError(f"signal {name} did not come in {timeout:g} s" if timeout is not None else name)
        return from_value(f"the data of signal {name!r}", data, type)

    async def submit(
        self,
        kind: str,
        args: Any = None,
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Submitted:
        """Submit a job, once whatever happens to this attempt: its id follows from this place in the code.

        Its result does not come back. Raises `WrongField` when it can never be accepted, and `StoreFull` while the
        store has no memory for it.
        """
        ids, answers = await self._bring(False, kind, [args], platform, name, options)
        delayed = options.get("delay_seconds") or options.get("run_at")
        return Submitted(ids[0], State.DELAYED if delayed else State.WAITING, answers[0] == "again")

    @overload
    async def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[Any]: ...

    @overload
    async def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        result: type[T],
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[T]: ...

    async def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        result: Any = Any,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[Any]:
        """Submit a job as a child of this one, once whatever happens; `join` waits for it. `result` is its type.

        Raises as `submit` does.
        """
        (child,) = await self.spawn_many(kind, [args], result=result, platform=platform, name=name, **options)
        return child

    @overload
    async def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[Any]]: ...

    @overload
    async def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        result: type[T],
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[T]]: ...

    async def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        result: Any = Any,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[Any]]:
        """One child for each args, in few calls; at most 10,000 for a job."""
        ids, _ = await self._bring(True, kind, list(many), platform, name, options)
        return [Child(each, kind, result) for each in ids]

    async def _bring(
        self, child: bool, kind: str, many: Sequence[Any], platform: str | None, name: str | None, options: JobOptions
    ) -> tuple[list[str], list[str]]:
        """Ids and answers of new jobs."""
        check_word(kind, "kind")
        if len(many) > MOST_CHILDREN:
            raise too_many(self.job.id)
        where, memory = platform or self.job.platform, await self.recall()
        place = memory.place("spawn" if child else "submit", name)
        keys = list(child_keys(self.job.id, place, kind, range(len(many))))
        ids = [join_id(where, key) for key in keys]
        if not many or memory.has_spawned(place, len(many)):
            return ids, ["again"] * len(many)
        jobs = [(key, encode_args(plain(args))) for key, args in zip(keys, many, strict=True)]
        return ids, await self.ask("spawn", child, where, kind, jobs, dict(as_text(options)), place)

    @overload
    async def join(self, children: Sequence[Child[T]], *, on_failure: Literal["fail"] = "fail") -> list[T]: ...

    @overload
    async def join(self, children: Sequence[Child[T]], *, on_failure: Literal["collect"]) -> list[T | ChildFailed]: ...

    @overload
    async def join(self, children: Sequence[Child[T]], *, on_failure: Literal["ignore"]) -> list[T | None]: ...

    async def join(self, children: Sequence[Child[Any]], *, on_failure: OnFailure = "fail") -> list[Any]:
        """The results of children, in their order. While one has not ended, this job waits without holding a slot.

        What becomes of a child that failed for good or was cancelled: `fail` raises its `ChildFailed` as soon as it is
        known, which ends this job failed unless the handler catches it; `collect` waits for all, and gives the
        `ChildFailed` in place of its result; `ignore` gives None there. Raises `ValueError` for a job that is not a
        child of this one.
        """
        if isinstance(children, Child) or not all(isinstance(child, Child) for child in children):
            raise TypeError(f"join takes a list of what spawn returned, not {children!r:.100}")
        if on_failure not in ("fail", "collect", "ignore"):
            raise ValueError(f'on_failure: expected "fail", "collect" or "ignore", not {on_failure!r}')
        ends = await self._all_ends(children, fails=on_failure == "fail")
        return [given(child, ends[child.id], on_failure) for child in children]

    async def _all_ends(self, children: Sequence[Child[Any]], *, fails: bool) -> dict[str, bytes]:
        """The ends of all children, once they are there. `fails`: raises the `ChildFailed` of the first that did not
        complete."""
        memory = await self.recall()
        number = memory.join_number(self.number)
        ends = {child.id: memory.ends[child.id] for child in children if child.id in memory.ends}
        while True:
            await self._look(number, [child for child in children if child.id not in ends], ends)
            memory.note_ends(ends)
            if fails and (failed := first_failed(children, ends)):
                raise failed
            if len(ends) == len(children) or all(child.id in ends for child in children):
                return ends
            await self.ask("wait", "join", number, "", None, fails)

    @overload
    async def children(self) -> list[Child[Any]]: ...

    @overload
    async def children(self, *, result: type[T]) -> list[Child[T]]: ...

    async def children(self, *, result: Any = Any) -> list[Child[Any]]:
        """The children that this job was submitted with (`submit_flow`), in order: all of them have completed."""
        return [Child(each, kind, result) for each, kind in await self.ask("children")]

    async def _look(self, number: str, children: Sequence[Child[Any]], ends: dict[str, bytes]) -> None:
        """Note the ends of those children that have ended; the others are wanted by this join."""
        start = 0
        while start < len(children):
            page = [child.id for child in children[start : start + JOIN_PAGE]]
            found = await self.ask("join", number, page)
            for child, end in zip(page, found, strict=False):
                if end == UNKNOWN:
                    raise ValueError(f"job {child} is not a child of {self.job.id}; join takes what spawn returned")
                if end:
                    ends[child] = end
            start += len(found)


def too_many(job_id: str) -> ValueError:
    return ValueError(f"job {job_id} would spawn more than {MOST_CHILDREN} jobs; spawn fewer, larger ones")


def has_completed(end: bytes) -> bool:
    return b" completed " in end[:40]


def first_failed(children: Sequence[Child[Any]], ends: dict[str, bytes]) -> ChildFailed | None:
    for child in children:
        if (end := ends.get(child.id)) and not has_completed(end):
            return child_failed(child, read_body(child.id, end))
    return None


def given(child: Child[Any], end: bytes, on_failure: OnFailure) -> Any:
    """The result of `join` for a child that has ended."""
    if not has_completed(end):
        return child_failed(child, read_body(child.id, end)) if on_failure == "collect" else None
    result = read_result(end)
    if child.result is Any:
        return result
    try:
        return msgspec.convert(result, child.result)
    except msgspec.ValidationError as error:
        raise TypeError(
            f"the result of child {child.id} does not fit its type {shown(child.result)}: {error}"
        ) from None


def child_failed(child: Child[Any], event: Event) -> ChildFailed:
    if event.status is Status.CANCELLED:
        return ChildFailed(child.id, child.kind, Failure("Cancelled", event.reason or "it was cancelled"))
    return ChildFailed(child.id, child.kind, event.error or Failure("Unknown", "no error of it is kept"))
