"""Platforms are asked in one call; one with corrupt keys must not silence the others."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import get_logger

log = get_logger()

T = TypeVar("T")
Asked = TypeVar("Asked", bound=PlatformKeys | tuple[PlatformKeys, Any])

CORRUPT = (BrokenOperation, ValueError)  # keys of another type, and numbers that are none


async def of_each(platforms: Sequence[Asked], ask: Callable[[Sequence[Asked]], Awaitable[Sequence[T]]]) -> dict[str, T]:
    """The answer of `ask` for each platform, in one call if possible. A corrupt platform is left out, and logged.

    A platform is its keys, or its keys and an argument.
    """
    names = [(asked[0] if isinstance(asked, tuple) else asked).platform for asked in platforms]
    try:
        return dict(zip(names, await ask(platforms), strict=True))
    except CORRUPT:
        answers: dict[str, T] = {}
        for name, asked in zip(names, platforms, strict=True):
            try:
                (answers[name],) = await ask([asked])
            except CORRUPT as error:
                log.error("platform_broken", platform=name, error=str(error))
        return answers
