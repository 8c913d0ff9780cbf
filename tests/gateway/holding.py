"""How long code keeps the loop from all others, by the processor's time: a busy machine does not count."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
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
