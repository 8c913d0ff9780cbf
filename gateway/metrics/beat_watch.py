"""Keeps looking at the beats of consumers while a scraper reads the metrics.

Whether a consumer is dead shows only to an observer that has watched it for its deadline, and a scraper may come once a
minute. Without a scraper nothing is looked at.
"""

import asyncio
import time

import anyio

from tailrace.streams.errors import TailraceError
from tailrace.streams.views.presence import Presence

EVERY_SECONDS = 2.0
INTEREST_SECONDS = 300.0  # after the last scrape


class BeatWatch:
    """Looks at beats for as long as metrics were read lately."""

    def __init__(self) -> None:
        self._wanted: dict[Presence, float] = {}  # until when
        self._asked = asyncio.Event()

    def want(self, presence: Presence) -> None:
        self._wanted[presence] = time.monotonic() + INTEREST_SECONDS
        self._asked.set()

    async def run(self) -> None:
        while True:
            await self._asked.wait()
            now = time.monotonic()
            self._wanted = {presence: until for presence, until in self._wanted.items() if until > now}
            if not self._wanted:
                self._asked.clear()
                continue
            for presence in list(self._wanted):
                try:
                    await presence.glance()
                except TailraceError:  # the store is unavailable: silences are counted again from zero when it is back
                    continue
            await anyio.sleep(EVERY_SECONDS)
