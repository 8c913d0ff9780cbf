"""drill: try a deployment; it works, fails, blocks or dies on command."""

import os
import re
import signal
import time
from typing import Any

import anyio

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.registry import Handlers
from tailrace.producers.kinds import Drill

handles = Handlers()


@handles("drill")
async def drill(attempt: Attempt[Drill]) -> Any:
    todo = attempt.args
    for step in range(1, todo.steps + 1):
        if step == 1 and attempt.number <= todo.fail_times:
            raise RuntimeError(f"drill: attempt {attempt.number} of {todo.fail_times} that fail as asked")
        if step == todo.exit_at_step and (attempt.number == 1 or not todo.exit_once):
            os.kill(os.getpid(), signal.SIGKILL)
        if todo.block == "none":
            await anyio.sleep(todo.seconds)
        else:
            hold_the_loop(todo.block, todo.seconds)
        await attempt.progress(step, of=todo.steps, message=todo.text)
    return todo.result


def hold_the_loop(how: str, seconds: float) -> None:
    """Block the loop as a careless handler does: sleep, compute, or run a pattern that backtracks."""
    end = time.monotonic() + seconds
    if how == "sleep":
        time.sleep(seconds)
    while time.monotonic() < end:
        if how == "regex":
            _backtrack(end - time.monotonic())


_length = 16  # grows until one match takes about as long as asked for


def _backtrack(seconds: float) -> None:
    """One match of a pattern that tries every way to split its text: the interpreter is held until it gives up."""
    global _length
    begun = time.monotonic()
    re.match(r"(a+)+$", "a" * _length + "!")
    took = time.monotonic() - begun
    if took < seconds / 3:
        _length += 1
    elif took > seconds:
        _length -= 1
