"""How long code keeps the loop from all others, by the processor's time and against other work of the same moment: a
slow or busy machine does not count."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from tailrace.gateway.server import collect_seldom

MEGABYTE = b'["%b"]' % b'","'.join([b"a"] * 262_000)
MOST_DECODES = 2.0  # of a megabyte, that anything may hold the loop of a gateway: to decode a body is the longest piece
MOST_SECONDS = 0.02  # the same on a machine that has nothing else to do


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


def decode_seconds() -> float:
    """What it takes this thread now to decode a megabyte."""
    before = time.thread_time()
    msgspec.json.decode(MEGABYTE)
    return time.thread_time() - before


class Hold:
    """How long work holds the loop at most."""

    def __init__(self, held: Held, decode_seconds: float) -> None:
        self.seconds = held.longest_seconds
        self.decodes = held.longest_seconds / decode_seconds
        self.share = held.longest_seconds / held.seconds if held.seconds else 0.0  # of all that it takes

    @property
    def is_short(self) -> bool:
        """A long turn among many others is the machine's: work that gives no way is nearly all of it in one."""
        return self.decodes < MOST_DECODES or self.share < 0.4

    def __repr__(self) -> str:
        return f"{self.seconds * 1000:.1f} ms, {self.decodes:.2f} decodes of a megabyte, {self.share:.0%} of all"


async def longest_hold(work: Callable[[], Awaitable[None]]) -> Hold:
    """The work may be done five times: what it holds is the same each time, and what a busy machine adds is not."""
    for _ in range(5):
        before = max(decode_seconds() for _ in range(3))
        async with holding() as held:
            await work()
        hold = Hold(held, max(before, decode_seconds()))
        if hold.is_short:
            break
    return hold
