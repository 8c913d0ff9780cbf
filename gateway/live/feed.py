"""The feed: one blocking read for all platforms, on a cluster one for each slot, while this process has clients."""

import asyncio
import random
from collections.abc import Collection, Sequence

import anyio

from tailrace.gateway.live.live import Live
from tailrace.gateway.live.log_reader import AWAY, LONGEST_PAUSE_SECONDS
from tailrace.streams.history.events import entry_order
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import FEED_COUNT, FeedEnd, read_feed, read_feed_ends, to_hints
from tailrace.streams.store.connection import Store

BLOCK_SECONDS = 2.0  # with the store's answer time, how long a dead link may go unnoticed

LONG_MS = 30_000  # half of what the feed keeps

log = get_logger()


class Feed:
    """Tells `live` of every event, and when some may have been missed."""

    def __init__(self, store: Store, platforms: Collection[str], live: Live) -> None:
        self._store = store
        self._live = live
        self._platforms = platforms  # some may come while we listen
        self._streams: dict[str, str] = {}  # of which it was last heard

    async def run(self) -> None:
        while True:
            self._streams = {self._store.keys(name)["events"]: name for name in self._platforms}
            groups = self._store.groups(list(self._streams))
            async with anyio.create_task_group() as tasks:
                for names in groups:
                    tasks.start_soon(self._follow, names, len(groups) == 1)

    def _are_all(self) -> bool:
        """Whether no platform has come since the streams were named."""
        return len(self._streams) == len(self._platforms)

    async def _follow(self, names: Sequence[str], whole: bool) -> None:
        """Read some streams, which fail as one. `whole`: these are all."""
        platforms = [self._streams[name] for name in names]
        meant = [] if whole else platforms
        pause_seconds = 0.0
        while self._are_all():
            self._live.heard.note(platforms, read=False)
            await self._live.watched.wait()
            if not self._are_all():
                return
            try:
                async with self._store.blocking(BLOCK_SECONDS) as store:
                    ends = await read_feed_ends(store, names)
                    if pause_seconds:
                        log.info("store_back")
                        pause_seconds = 0.0
                    # What happened before this moment is in the logs, what comes after it is in the feed.
                    self._live.doubt(*meant)
                    self._live.heard.note(platforms, read=True)
                    await self._listen(store, ends)
            except Exception as error:  # most often the store is away; but no error may end the feed
                self._live.heard.note(platforms, read=False)
                if not pause_seconds:
                    log.warning("store_away" if isinstance(error, AWAY) else "feed_broken", reason=repr(error))
                pause_seconds = min(LONGEST_PAUSE_SECONDS, pause_seconds * 2 or 0.1)
                await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.0))
                # The logs may be there even if the feed is not. Streams of all jobs hear of it when the store is back.
                self._live.compare(*meant) if isinstance(error, AWAY) else self._live.doubt(*meant)

    async def _listen(self, store: Store, ends: dict[str, FeedEnd]) -> None:
        cursors = {name: end.cursor for name, end in ends.items()}
        read = {name: end.added for name, end in ends.items()}  # entries up to the cursor, of all there ever were
        while self._live.watched.is_set() and self._are_all():
            news = await read_feed(store, cursors, int(BLOCK_SECONDS * 1000))
            for name, entries in news.items():
                platform, newest = self._streams[name], entries[-1][0].decode()
                rested = len(entries) >= FEED_COUNT or far_apart(cursors[name], newest)
                end = (await read_feed_ends(store, [name]))[name] if rested else None
                self._live.hear(platform, to_hints(platform, entries, self._live.watches(platform)))
                if end and was_cut(end, read[name], len(entries)):
                    # All that happened up to this end is in the logs: go on from there.
                    self._live.doubt(platform)
                    cursors[name], read[name] = end.cursor, end.added
                else:
                    cursors[name], read[name] = newest, read[name] + len(entries)
        # At once: a client that comes now waits until it is read again.
        self._live.heard.note([self._streams[name] for name in cursors], read=False)


def was_cut(end: FeedEnd, read: int, more: int) -> bool:
    """Whether a stream lost entries before they were read: a read from such a place skips them in silence.

    The entry of the cursor may be gone although nothing was missed, so entries are counted. The feed keeps a minute,
    and far more than one read brings: it can only be cut when a read came back full, or long after the one before.
    Fewer entries than were read: it is another stream.
    """
    return end.trimmed > read or end.added < read + more


def far_apart(cursor: str, newest: str) -> bool:
    """Whether two entries are so far apart in time that the feed may have dropped some in between."""
    return entry_order(newest)[0] - entry_order(cursor)[0] >= LONG_MS
