"""Removes ended jobs that need not be kept any longer, now and then, in bounded batches."""

import time
from contextlib import suppress
from functools import partial

import anyio

from tailrace.consumers.heart.messages import Instructions
from tailrace.streams.errors import StoreError
from tailrace.streams.transitions import FORGET_BATCH, Transitions
from tailrace.streams.views.corrupt import of_each

EVERY_SECONDS = 5.0


class Retention:
    """What one heart does for the retention of its platforms."""

    def __init__(self, instructions: Instructions, transitions: Transitions) -> None:
        self._transitions = transitions
        self._policies = instructions.policies

    async def run(self) -> None:
        while True:
            with suppress(StoreError):
                await self.round()
            await anyio.sleep(EVERY_SECONDS)

    async def round(self) -> None:
        """Remove all there is to remove."""
        left = [(self._transitions.store.keys(platform), policy) for platform, policy in self._policies.items()]
        while left:
            most, asked = max(1, FORGET_BATCH // len(left)), time.monotonic()
            removed = await of_each(left, partial(self._transitions.forget, most=most))
            left = [(keys, policy) for keys, policy in left if removed.get(keys.platform, 0) >= most]
            await anyio.sleep(time.monotonic() - asked)  # half of the time for others
