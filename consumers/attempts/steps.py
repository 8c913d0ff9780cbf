"""Steps: what an attempt saves, so that the next one goes on from there."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, overload

from tailrace.consumers.attempts.facts import Args, AttemptFacts, Opened
from tailrace.consumers.attempts.reports import check_name
from tailrace.consumers.attempts.values import from_value, returned_by, to_value

P = ParamSpec("P")
T = TypeVar("T")

OURS = "@"
"""The names of values that the library saves begin with it: those of steps do not."""


class Memory:
    """What one attempt knows of the values that were saved."""

    __slots__ = ("_used", "saved")

    def __init__(self, saved: dict[str, bytes]) -> None:
        self.saved = saved
        self._used: set[str] = set()

    def use(self, name: str) -> None:
        if name in self._used:
            raise ValueError(
                f"step {name!r} is used twice in this attempt; give each step its own name, such as {name + ' 2'!r}"
            )
        self._used.add(name)

    def give_back(self, name: str) -> None:
        """A step that raised may be tried again."""
        self._used.discard(name)


class Steps(AttemptFacts[Args, Opened]):
    """What an attempt saves. Every value is JSON of at most 256 KB; all of a job share `max_step_bytes`."""

    __slots__ = ("_memory",)

    _memory: Memory | None

    async def ask(self, verb: str, *args: Any) -> Any:
        """Have the store do something under the fence of this attempt."""
        raise NotImplementedError

    async def awaited(self, given: Any) -> Any:
        """What a function of the handler gave, plain or async."""
        return await given if inspect.isawaitable(given) else given

    async def recall(self) -> Memory:
        """What was saved. An attempt asks the store once, the first one not at all."""
        if self._memory is None:
            saved = await self.ask("recall") if self.number > 1 else {}
            if self._memory is None:  # another step may have asked at the same time, and have saved more since
                self._memory = Memory(saved)
        return self._memory

    @overload
    async def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What `function(*args)` returns, by its annotation: called once and saved, later attempts get the same.

        A step that was under way when its worker died runs again: `idempotency_key(name)` is the same then. What the
        function raises is not saved. Raises as `progress` does; a `ValueError` when the name was used before in this
        attempt, when the result has over 256 KB, or when the job's steps have `max_step_bytes`; a `TypeError` when the
        result does not fit the annotation.
        """
        check_step(name)
        type, memory = returned_by(function), await self.recall()
        memory.use(name)
        if name in memory.saved:
            return from_value(f"the result of step {name!r}, saved by an earlier attempt,", memory.saved[name], type)
        try:
            result = await self.awaited(function(*args, **kwargs))
            what = f"the result of step {name!r}"
            value = to_value(what, result)
            given = from_value(what, value, type)
            await self.ask("save", name, value)
        except BaseException:
            memory.give_back(name)
            raise
        memory.saved[name] = value
        return given


def check_step(name: object) -> None:
    check_name(name)
    if str(name).startswith(OURS):
        raise ValueError(f"step: {name!r} begins with {OURS}, as only the names of Tailrace itself do")
