"""The jobs of `bench`: each does almost nothing, so that Tailrace and its store are measured."""

import time
from typing import Any

import anyio
from msgspec import Struct

from tailrace.consumers import Attempt, Handlers

handles = Handlers()

STEPS = 10  # of a job that reports
HOLD_SECONDS = 600.0  # longer than a measure waits for a job that is to be interrupted


class Broadcast(Struct, frozen=True):
    """The args of a job that reports to live clients."""

    rounds: int
    together: int  # steps reported at one time in each round
    pause_seconds: float  # after each round


@handles("noop")
async def noop(attempt: Attempt[dict[str, Any]]) -> None:
    pass


@handles("steps")
async def steps(attempt: Attempt[dict[str, Any]]) -> None:
    for step in range(1, STEPS + 1):
        await attempt.progress(step, of=STEPS)


@handles("stamp")
async def stamp(attempt: Attempt[dict[str, Any]]) -> int:
    """Return the start by the clock that all processes of a machine share."""
    return time.monotonic_ns()


@handles("hold")
async def hold(attempt: Attempt[dict[str, Any]]) -> int:
    """Return the start, as above; the first attempt stays until it is killed."""
    began = time.monotonic_ns()
    if attempt.number == 1:
        await anyio.sleep(HOLD_SECONDS)
    return began


@handles("broadcast")
async def broadcast(attempt: Attempt[Broadcast]) -> None:
    """Each report says when it was made."""
    todo = attempt.args

    async def report(step: int) -> None:
        await attempt.progress(step, data=time.monotonic_ns())

    for number in range(todo.rounds):
        async with anyio.create_task_group() as reports:
            for step in range(todo.together):
                reports.start_soon(report, number * todo.together + step)
        await anyio.sleep(todo.pause_seconds)
