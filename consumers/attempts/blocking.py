"""The attempt of a handler in a thread or a process: the same methods, without `await`."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

from tailrace.consumers.attempts.facts import Args, AttemptFacts, Opened
from tailrace.consumers.attempts.flows import Child, Flows
from tailrace.consumers.attempts.steps import Walked
from tailrace.consumers.outcomes import ChildFailed
from tailrace.producers.submissions import Submitted
from tailrace.streams.messages import Claim, Job, Step
from tailrace.streams.options import JobOptions

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

Ask = Callable[..., Any]  # verb, args -> answer


class Verbs(Flows[Any, Any]):
    """The verbs of an attempt outside the loop. They never give way: what they await is there when they ask for it."""

    __slots__ = ("_blocking",)

    def __init__(self, facts: AttemptFacts[Any, Any], ask: Ask) -> None:
        super().__init__(facts.job, facts.claim, facts.args, facts.worker)
        self._memory = None
        self._blocking = ask

    async def ask(self, verb: str, *args: Any) -> Any:
        return self._blocking(verb, *args)

    async def awaited(self, given: Any) -> Any:
        if inspect.isawaitable(given):
            if inspect.iscoroutine(given):
                given.close()
            raise TypeError("an async function cannot run in a thread or a process; hand over a plain one")
        return given


def done(verb: Coroutine[Any, Any, T]) -> T:
    """The result of a method that never suspends."""
    try:
        verb.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it gave way")


class SyncAttempt(AttemptFacts[Args, Opened]):
    """An `Attempt` without `await`: each call waits until the store has answered.

    Each raises `Cancelled` if its time is up or the consumer leaves, and else as the method of `Attempt` does.
    """

    __slots__ = ("_ask", "_made")

    def __init__(self, job: Job, claim: Claim, args: Args, worker: str, ask: Ask) -> None:
        super().__init__(job, claim, args, worker)
        self._ask = ask
        self._made: Verbs | None = None

    @property
    def _verbs(self) -> Verbs:
        if self._made is None:
            self._made = Verbs(self, self._ask)
        return self._made

    def progress(
        self, step: Step, of: int | None = None, message: str | None = None, data: Any = None, *, wait: bool = True
    ) -> None:
        """Show a step as `Attempt.progress` does."""
        self._ask("progress", step, of, message, data, wait)

    def flush(self) -> None:
        """Wait until all reports so far are shown, as `Attempt.flush` does."""
        self._ask("flush")

    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `function(*args)`, called here once and saved, as `Attempt.step` does."""
        return done(self._verbs.step(name, function, *args, **kwargs))

    def checkpoint(self, value: Any, *, name: str = "checkpoint") -> None:
        """Keep a value for later attempts, as `Attempt.checkpoint` does."""
        done(self._verbs.checkpoint(value, name=name))

    def checkpointed(self, type: type[T], *, name: str = "checkpoint") -> T | None:
        """The value that `checkpoint` kept last."""
        done(self._verbs.recall())
        return self._verbs.checkpointed(type, name=name)

    def each(
        self,
        items: Iterable[Item],
        function: Callable[[Item], Any],
        /,
        *,
        batch: int = 50,
        on_error: Literal["raise", "skip"] = "raise",
        name: str | None = None,
    ) -> Walked:
        """Call `function(item)` for each item and keep a cursor, as `Attempt.each` does."""
        return done(self._verbs.each(items, function, batch=batch, on_error=on_error, name=name))

    def sleep(self, seconds: float | None = None, *, until: datetime | None = None, name: str | None = None) -> None:
        """Go on later in another attempt, as `Attempt.sleep` does."""
        done(self._verbs.sleep(seconds, until=until, name=name))

    @overload
    def wait_for(self, name: str, *, timeout: float | None = None) -> Any: ...

    @overload
    def wait_for(self, name: str, *, timeout: float | None = None, type: type[T]) -> T: ...

    def wait_for(self, name: str, *, timeout: float | None = None, type: Any = Any) -> Any:
        """The data of a signal, as `Attempt.wait_for` gives it."""
        return done(self._verbs.wait_for(name, timeout=timeout, type=type))

    def submit(
        self,
        kind: str,
        args: Any = None,
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Submitted:
        """Submit a job once, as `Attempt.submit` does."""
        return done(self._verbs.submit(kind, args, platform=platform, name=name, **options))

    @overload
    def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[Any]: ...

    @overload
    def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        result: type[T],
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[T]: ...

    def spawn(
        self,
        kind: str,
        args: Any = None,
        *,
        result: Any = Any,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Child[Any]:
        """Submit a job as a child of this one, as `Attempt.spawn` does."""
        return done(self._verbs.spawn(kind, args, result=result, platform=platform, name=name, **options))

    @overload
    def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[Any]]: ...

    @overload
    def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        result: type[T],
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[T]]: ...

    def spawn_many(
        self,
        kind: str,
        many: Iterable[Any],
        *,
        result: Any = Any,
        platform: str | None = None,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Child[Any]]:
        """One child for each args, as `Attempt.spawn_many` does."""
        return done(self._verbs.spawn_many(kind, many, result=result, platform=platform, name=name, **options))

    @overload
    def join(self, children: Sequence[Child[T]], *, on_failure: Literal["fail"] = "fail") -> list[T]: ...

    @overload
    def join(self, children: Sequence[Child[T]], *, on_failure: Literal["collect"]) -> list[T | ChildFailed]: ...

    @overload
    def join(self, children: Sequence[Child[T]], *, on_failure: Literal["ignore"]) -> list[T | None]: ...

    def join(self, children: Sequence[Child[Any]], *, on_failure: Any = "fail") -> list[Any]:
        """The results of children, in their order, as `Attempt.join` gives them."""
        return done(self._verbs.join(children, on_failure=on_failure))

    @overload
    def children(self) -> list[Child[Any]]: ...

    @overload
    def children(self, *, result: type[T]) -> list[Child[T]]: ...

    def children(self, *, result: Any = Any) -> list[Child[Any]]:
        """The children that this job was submitted with, as `Attempt.children` gives them."""
        return done(self._verbs.children(result=result))
