"""Removes ended jobs that need not be kept any longer, now and then, in bounded batches."""

import time
from collections.abc import Sequence
from contextlib import suppress

import anyio

from tailrace.consumers.heart.messages import Instructions
from tailrace.streams.errors import BadConfiguration, StoreError
from tailrace.streams.keys import PlatformKeys
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
            with suppress(StoreError, BadConfiguration):
                await self.round()
            await anyio.sleep(EVERY_SECONDS)

    async def round(self) -> None:
        """Remove all there is to remove."""
        left = list(self._policies)
        while left:
            most = max(1, FORGET_BATCH // len(left))

            async def forget(platforms: Sequence[PlatformKeys], most: int = most) -> list[int]:
                rules = [(keys, self._policies[keys.platform]) for keys in platforms]
                return await self._transitions.forget(rules, most)

            asked = time.monotonic()
            removed = await of_each([PlatformKeys(platform) for platform in left], forget)
            left = [platform for platform, count in removed.items() if count >= most]
            await anyio.sleep(time.monotonic() - asked)  # half of the time is left to others
