"""Removes ended jobs that need not be kept any longer, now and then, in bounded batches."""

import time
from contextlib import suppress
from functools import partial

import anyio

from tailrace.consumers.heart.messages import Instructions
from tailrace.streams.errors import StoreError
from tailrace.streams.transitions import FORGET_BATCH, Transitions, share
from tailrace.streams.views.corrupt import of_each

EVERY_SECONDS = 5.0


class Retention:
    """Removes ended jobs of a heart's platforms."""

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
            asked = time.monotonic()
            forget = partial(self._transitions.forget, most=share(FORGET_BATCH, len(left)))
            forgotten = await of_each(left, forget)
            more = {platform for platform, each in forgotten.items() if each.more}
            left = [(keys, policy) for keys, policy in left if keys.platform in more]
            await anyio.sleep(time.monotonic() - asked)  # half of the time for others
