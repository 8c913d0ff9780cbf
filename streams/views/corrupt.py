"""Platforms are asked in one call; one with corrupt keys must not silence the others."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation

log = structlog.get_logger()

T = TypeVar("T")

CORRUPT = (BrokenOperation, ValueError)  # keys of another type, and numbers that are none


async def of_each(
    platforms: Sequence[PlatformKeys], ask: Callable[[Sequence[PlatformKeys]], Awaitable[Sequence[T]]]
) -> dict[str, T]:
    """What `ask` tells of each platform, in one call when all is well. One that is corrupt is left out, and told of."""
    try:
        return {keys.platform: told for keys, told in zip(platforms, await ask(platforms), strict=True)}
    except CORRUPT:
        answers: dict[str, T] = {}
        for keys in platforms:
            try:
                (answers[keys.platform],) = await ask([keys])
            except CORRUPT as error:
                log.error("platform_broken", platform=keys.platform, error=str(error))
        return answers
