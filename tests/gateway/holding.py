"""How long code keeps the loop from all others, by the processor's time: a busy machine does not count."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tailrace.gateway.server import collect_seldom

MOST_SECONDS = 0.02  # that anything may hold the loop of a gateway


class Held:
    """The longest turn of the loop so far, and all of them together."""

    longest_seconds = 0.0
    seconds = 0.0


@asynccontextmanager
async def holding() -> AsyncIterator[Held]:
    held = Held()

    async def measure() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            held.longest_seconds = max(held.longest_seconds, now - before)
            held.seconds += now - before
            before = now

    thresholds = gc.get_threshold()
    collect_seldom()
    measuring = asyncio.create_task(measure())
    await asyncio.sleep(0)
    try:
        yield held
    finally:
        measuring.cancel()
        with suppress(asyncio.CancelledError):
            await measuring
        gc.unfreeze()
        gc.set_threshold(*thresholds)


async def longest_hold(work: Callable[[], Awaitable[None]]) -> float:
    """How long the work holds the loop at most.

    It may be done three times: what it holds is the same each time, and what a busy machine adds is not.
    """
    for _ in range(3):
        async with holding() as held:
            await work()
        if held.longest_seconds < MOST_SECONDS:
            break
    return held.longest_seconds
