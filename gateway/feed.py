"""The feed: one blocking read for all platforms of this process, while anybody watches anything."""

import asyncio
import random
from collections.abc import Iterable

import structlog

from gateway.live import AWAY, LONGEST_PAUSE_SECONDS, Live
from streams.connection import Store
from streams.events import entry_order
from streams.keys import PlatformKeys
from streams.reading import FEED_COUNT, read_feed, read_feed_ends, to_hints

BLOCK_SECONDS = 2.0  # with the store's answer time, how long a dead link may go unnoticed

LONG_MS = 30_000  # half of what the feed keeps

log = structlog.get_logger()


class Feed:
    """Tells `live` what happens. Whenever it may have missed something, it says so."""

    def __init__(self, store: Store, platforms: Iterable[str], live: Live) -> None:
        self._store = store
        self._live = live
        self._streams = {PlatformKeys(platform)["events"]: platform for platform in platforms}

    async def run(self) -> None:
        pause_seconds = 0.0
        while True:
            await self._live.watched.wait()
            try:
                async with self._store.blocking(BLOCK_SECONDS) as store:
                    ends = await read_feed_ends(store, self._streams)
                    if pause_seconds:
                        log.info("store_is_back")
                        pause_seconds = 0.0
                    # What happened before this moment is in the logs, what comes after it is in the feed.
                    self._live.doubt()
                    await self._listen(store, {name: newest for name, (_, newest) in ends.items()})
            except Exception as error:  # above all an absent store; but nothing may end the feed of everybody
                if not pause_seconds:
                    log.warning("store_is_away" if isinstance(error, AWAY) else "feed_is_broken", reason=repr(error))
                pause_seconds = min(LONGEST_PAUSE_SECONDS, pause_seconds * 2 or 0.1)
                await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.0))
                self._live.doubt()  # the logs may be there even if the feed is not

    async def _listen(self, store: Store, cursors: dict[str, str]) -> None:
        while self._live.watched.is_set():
            news = await read_feed(store, cursors, int(BLOCK_SECONDS * 1000))
            for name, entries in news.items():
                rested = len(entries) >= FEED_COUNT or far_apart(cursors[name], entries[-1][0].decode())
                if rested and await self._was_cut(store, name, cursors[name]):
                    self._live.doubt(self._streams[name])
                cursors[name] = entries[-1][0].decode()
                platform = self._streams[name]
                self._live.hear(platform, to_hints(platform, entries, self._live.watches(platform)))

    async def _was_cut(self, store: Store, name: str, cursor: str) -> bool:
        """Whether the capped stream lost entries that we had not read: a read from such a place skips in silence.

        It keeps a minute, and not more than far above what one read brings, so this can only be so when the read
        came back full, or long after the one before.
        """
        oldest, _ = (await read_feed_ends(store, [name]))[name]
        return entry_order(oldest) > entry_order(cursor)


def far_apart(cursor: str, newest: str) -> bool:
    """Whether so much time is between two entries that the feed may have forgotten some in between."""
    return entry_order(newest)[0] - entry_order(cursor)[0] >= LONG_MS
