"""Handlers that fail until they are repaired, and one that ignores the loss of its job."""

import os
from pathlib import Path

from tailrace.consumers import Attempt, GiveUp, Handlers
from tailrace.ops.race.careless_handler import handles as careless_handles

handles = Handlers(careless_handles)


def mended() -> bool:
    return Path(os.environ["MENDED"]).exists()


@handles("fails")
async def fails(attempt: Attempt[dict[str, int]]) -> None:
    if not mended():
        raise GiveUp("the server that it calls is down")


@handles("kills")
async def kills(attempt: Attempt[dict[str, int]]) -> None:
    if not mended():
        os.kill(os.getpid(), 9)
