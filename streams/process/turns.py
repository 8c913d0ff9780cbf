"""Turns: long work in short pieces, so that everything else in the process goes on in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS = 0.005  # of work at a time


class Turns:
    """Long work that lets other tasks run now and then."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give_way(self) -> None:
        """Let other tasks run, if this work has held the loop for its share of time."""
        if time.perf_counter() - self._since > TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items one after the other, and let other tasks run in between."""
    turns = Turns()
    for item in items:
        yield item
        await turns.give_way()
