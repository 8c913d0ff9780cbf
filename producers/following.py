"""A job followed in the store: its visible events as they come, and its end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from tailrace.streams.errors import NoStore
from tailrace.streams.history.fold import read_head
from tailrace.streams.history.pages import Histories
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.messages import Record
from tailrace.streams.replies import read_feed, read_feed_ends, read_job, to_hints
from tailrace.streams.store.connection import Store

WAIT_MS = 2000  # then the log is read without a hint, should one have been trimmed away
AWAY_SECONDS = 0.5


async def read_visible(store: Store, job_id: str) -> tuple[Record, list[bytes]]:
    """A job's record and its visible events, as JSON."""
    platform, key = split_id(job_id)
    page = await Histories(store).whole(store.keys(platform), key)
    return page.record, page.events


async def follow(
    store: Store, job_id: str, *, after: str | None = None, on_outage: Callable[[NoStore], None] = lambda _: None
) -> AsyncIterator[bytes]:
    """The visible events of a job as they come, to its end; `after` is the id of the last one that is known.

    Once begun, it outlives an outage of the store, and `on_outage` is called once. Raises `WrongField` when the job
    has no event with the id `after`.
    """
    platform, key = split_id(job_id)
    keys, histories = store.keys(platform), Histories(store)
    last_id, begun, away = after or "", False, False
    async with listening(store, keys) as hints:
        while True:
            try:
                # The feed is a hint that there is something to read; the log is the truth.
                page = await histories.page(keys, key, last_id, None)
                begun = True
                for raw in page.events:
                    yield raw
                if page.events and (head := read_head(page.events[-1])):
                    last_id = head.id
                if page.record.state.ended:
                    return
                await hints.wait(key)
                away = False
            except NoStore as error:
                if not begun:
                    raise
                if not away:
                    on_outage(error)
                away = True
                await anyio.sleep(AWAY_SECONDS)


async def wait_for_end(store: Store, job_id: str) -> tuple[Record, bytes]:
    """Wait until a job has ended; its record and its last event, as JSON."""
    platform, key = split_id(job_id)
    keys = store.keys(platform)
    async with listening(store, keys) as hints:
        while True:
            try:
                record, events = await read_job(store, keys, key, first=-1)
                if record.state.ended and events:
                    return record, events[-1]
                await hints.wait(key)
            except NoStore:
                await anyio.sleep(AWAY_SECONDS)


class Hints:
    """Reads the live feed of a platform, from the moment of `listening` on."""

    def __init__(self, store: Store, feed: str, cursor: str) -> None:
        self._store = store
        self._feed = feed
        self._cursor = cursor

    async def wait(self, key: str) -> None:
        """Return when the feed names the job, or has been quiet for a while."""
        while entries := (await read_feed(self._store, {self._feed: self._cursor}, WAIT_MS)).get(self._feed):
            self._cursor = entries[-1][0].decode()
            if any(hint.key == key for hint in to_hints("", entries)):
                return


@asynccontextmanager
async def listening(store: Store, keys: PlatformKeys) -> AsyncIterator[Hints]:
    """Begin to read the feed here: later events are in the feed, earlier ones in the log."""
    feed = keys["events"]
    cursor = (await read_feed_ends(store, [feed]))[feed].cursor
    async with store.blocking(WAIT_MS / 1000) as ears:
        yield Hints(ears, feed, cursor)
