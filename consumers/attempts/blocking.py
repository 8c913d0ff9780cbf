"""The attempt of a handler in a thread or a process: the same verbs, each of which waits for its answer."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from tailrace.consumers.attempts.facts import Args, AttemptFacts, Opened
from tailrace.consumers.attempts.steps import Steps
from tailrace.streams.messages import Claim, Job, Step

P = ParamSpec("P")
T = TypeVar("T")

Ask = Callable[..., Any]  # verb, args -> answer


class Verbs(Steps[Any, Any]):
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
    """What a verb that never gives way returns."""
    try:
        verb.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it gave way")


class SyncAttempt(AttemptFacts[Args, Opened]):
    """The same as `Attempt`, without `await`: each call waits until the store has answered.

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

    def progress(self, step: Step, of: int | None = None, message: str | None = None, data: Any = None) -> None:
        """Show a step as `Attempt.progress` does."""
        self._ask("progress", step, of, message, data)

    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `function(*args)` returns: called here once and saved, as `Attempt.step` does."""
        return done(self._verbs.step(name, function, *args, **kwargs))
