"""A handler for `race` that ignores every refusal: it goes on after its job was taken away, as careless code would."""

from contextlib import suppress

import anyio
from msgspec import Struct

from tailrace.consumers import Attempt, Handlers
from tailrace.streams.errors import Lost

handles = Handlers()


class Careless(Struct, frozen=True):
    steps: int
    seconds: float  # per step


@handles("careless")
async def careless(attempt: Attempt[Careless]) -> str:
    todo = attempt.args
    for step in range(1, todo.steps + 1):
        with suppress(Lost, anyio.get_cancelled_exc_class()):
            await anyio.sleep(todo.seconds)
        with suppress(Lost, anyio.get_cancelled_exc_class()):
            await attempt.progress(step, of=todo.steps)
    return f"done by {attempt.worker}"
