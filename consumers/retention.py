"""Removes ended jobs that need not be kept any longer, now and then, in bounded batches."""

import time

import anyio
import structlog

from consumers.instructions import Instructions
from streams.errors import BadConfiguration, StoreError
from streams.keys import PlatformKeys
from streams.transitions import FORGET_BATCH, BrokenOperation, Transitions

log = structlog.get_logger()

EVERY_SECONDS = 5.0


class Retention:
    """What one heart does for the retention of its platforms."""

    def __init__(self, instructions: Instructions, transitions: Transitions) -> None:
        self._to = instructions
        self._transitions = transitions
        keys = map(PlatformKeys, instructions.platforms)
        self._lines = list(zip(keys, instructions.policies, strict=True))

    async def run(self) -> None:
        while True:
            try:
                await self._forget()
            except (StoreError, BadConfiguration):
                pass
            except BrokenOperation as error:  # keys that were spoilt by hand must not end a heart
                log.error("forget_broken", owner=self._to.owner, error=str(error))
            await anyio.sleep(EVERY_SECONDS)

    async def _forget(self) -> None:
        lines = self._lines
        while lines:
            most = max(1, FORGET_BATCH // len(lines))
            asked = time.monotonic()
            removed = await self._transitions.forget_all(lines, most)
            lines = [line for line, count in zip(lines, removed, strict=True) if count >= most]
            await anyio.sleep(time.monotonic() - asked)  # half of the time is left to others
