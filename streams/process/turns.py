"""Turns: long work in short pieces, so that everything else in the process goes on in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS = 0.005  # of work at a time


class Turns:
    """A piece of work that gives way now and then."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give_way(self) -> None:
        """Let others go on, if this work has taken its time."""
        if time.perf_counter() - self._since > TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """These, one after the other, giving way in between."""
    turns = Turns()
    for item in items:
        yield item
        await turns.give_way()
