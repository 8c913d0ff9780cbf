"""Puts jobs that no list names back in the queue, slowly: after a consumer, an entry or a key was deleted by hand.

All consumers of a platform share the work: the more of them beat, the longer each pauses between two turns.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio

from tailrace.consumers.heart.messages import Instructions
from tailrace.streams.errors import StoreError
from tailrace.streams.keys import join_id
from tailrace.streams.process.logs import get_logger
from tailrace.streams.transitions import MEND_BATCH, Transitions, share
from tailrace.streams.views.corrupt import of_each

log = get_logger()

EVERY_SECONDS = 5.0  # between two turns of a platform, over all its consumers
PAGES = 8  # in one turn, each in a call of its own: together some ten milliseconds of the server's time


class Mender:
    """Finds the jobs of a heart's platforms that no list names."""

    def __init__(self, instructions: Instructions, transitions: Transitions) -> None:
        self._transitions = transitions
        self._keys = transitions.store.keys
        self._cursors = dict.fromkeys(instructions.policies, "")
        now = time.monotonic()
        self._next = {platform: now + EVERY_SECONDS * random.random() for platform in instructions.policies}

    async def run(self) -> None:
        while True:
            with suppress(StoreError):
                await self.round(time.monotonic())
            await anyio.sleep(EVERY_SECONDS / 4)

    async def round(self, now: float) -> None:
        """Look at the next pages of each platform whose turn has come."""
        turn = [platform for platform, at in self._next.items() if at <= now]
        self._next |= dict.fromkeys(turn, now + EVERY_SECONDS)
        for _ in range(PAGES):
            asked = time.monotonic()
            turn = await self._page(turn, now)
            await anyio.sleep(time.monotonic() - asked)  # half of the time for others

    async def _page(self, platforms: Sequence[str], now: float) -> list[str]:
        """Look at one page of each platform, in one call; those that have another page."""
        looks = [(self._keys(platform), self._cursors[platform]) for platform in platforms]
        if not looks:
            return []
        sweeps = await of_each(looks, partial(self._transitions.mend, most=share(MEND_BATCH, len(looks))))
        for platform, sweep in sweeps.items():
            self._cursors[platform] = sweep.cursor
            self._next[platform] = now + EVERY_SECONDS * max(1, sweep.owners) * random.uniform(0.5, 1.5)
            for key in sweep.mended:
                log.warning("job_mended", job=join_id(platform, key))
        return [platform for platform, sweep in sweeps.items() if sweep.cursor]
