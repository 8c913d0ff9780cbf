"""Waiting for what must come: looks again and again, and fails by saying what did not come."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

LOOK_SECONDS = 0.02


async def eventually(what: str, look: Callable[[], Awaitable[Found]], *, seconds: float = 60.0) -> Found:
    """The first answer of `look` that is true. The limit is for a machine with much else to do, not a promise."""
    patience = time.monotonic() + seconds
    while not (found := await look()):
        if time.monotonic() > patience:
            raise AssertionError(f"not within {seconds:g} s: {what}; the last look saw {found!r}")
        await asyncio.sleep(LOOK_SECONDS)
    return found
