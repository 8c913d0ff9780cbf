"""Handlers for real consumers that steer their jobs, or do not listen."""

import asyncio
import time
from contextlib import suppress

import anyio

from tailrace.consumers import Attempt, Delay, GiveUp, Handlers, RateLimited

handles = Handlers()


@handles("gives-up")
async def gives_up(attempt: Attempt[dict[str, int]]) -> None:
    raise GiveUp("this page will never be there")


@handles("own-pace", backoff=lambda failures: failures / 10)
async def own_pace(attempt: Attempt[dict[str, int]]) -> None:
    raise RuntimeError("as asked")


@handles("broken-pace", backoff=lambda failures: -1)
async def broken_pace(attempt: Attempt[dict[str, int]]) -> None:
    raise RuntimeError("as asked")


@handles("puts-off")
async def puts_off(attempt: Attempt[dict[str, float]]) -> int:
    """Twice, then it is done."""
    if attempt.number < 3:
        raise Delay(seconds=attempt.args["seconds"])
    return attempt.number


@handles("left-alone")
async def left_alone(attempt: Attempt[dict[str, float]]) -> int:
    """The server it asks wants a pause, once."""
    if attempt.number < 2:
        raise RateLimited(seconds=attempt.args["seconds"])
    return attempt.number


@handles("circles")
async def circles(attempt: Attempt[dict[str, float]]) -> None:
    raise Delay(seconds=0)


@handles("carries-on")
async def carries_on(attempt: Attempt[dict[str, float]]) -> str:
    """When it is cancelled it thinks that it knows better, and ends as if nothing had happened."""
    await attempt.progress(1)
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    return "done anyway"


@handles("until-told")
async def until_told(attempt: Attempt[dict[str, str]]) -> None:
    """It works until there is a file."""
    while not await anyio.Path(attempt.args["file"]).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)


@handles("never-stops")
async def never_stops(attempt: Attempt[dict[str, float]]) -> None:
    await attempt.progress(1)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@handles("blocks-once")
async def blocks_once(attempt: Attempt[dict[str, float]]) -> str:
    if attempt.number == 1:
        time.sleep(60)  # noqa: ASYNC251 - what this is about
    return "done"
