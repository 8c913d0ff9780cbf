"""Hooks around attempts: functions that run before and after each handler of a set.

A hook is `async def hook(attempt, call_next)`. It waits for `call_next()` once, and may look at what that returns or
raises. What it returns itself is not used, and an error that it keeps to itself is raised all the same: a hook can make
an attempt fail, but can neither hide a failure nor the loss of a job.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from tailrace.consumers.attempt import Attempt
from tailrace.streams.errors import Cancelled, Lost

CallNext = Callable[[], Coroutine[Any, Any, Any]]
Hook = Callable[[Attempt[Any], CallNext], Awaitable[Any]]


class Inner(Struct, eq=False):
    """The `call_next` of a hook: the next hook, or the handler itself."""

    call: CallNext
    called: bool = False
    returned: bool = False
    result: Any = None
    error: BaseException | None = None

    async def __call__(self) -> Any:
        if self.called:
            raise RuntimeError("call_next is for one call: a second try at a job is another attempt")
        self.called = True
        try:
            self.result = await self.call()
        except BaseException as error:
            self.error = error
            raise
        self.returned = True
        return self.result


async def call_through(hooks: Sequence[Hook], attempt: Attempt[Any], call: CallNext) -> Any:
    """Call the handler with its hooks around it, the first of them outermost."""
    if not hooks:
        return await call()
    inner = Inner(lambda: call_through(hooks[1:], attempt, call))
    try:
        await hooks[0](attempt, inner)
    except BaseException:
        if isinstance(inner.error, Lost | Cancelled):  # also when the hook raises another error
            raise inner.error from None
        raise
    if inner.error is not None:
        raise inner.error
    if not inner.returned:
        name = getattr(hooks[0], "__qualname__", hooks[0])
        raise RuntimeError(f"the hook {name} returned without waiting for call_next; to refuse an attempt, raise")
    return inner.result
