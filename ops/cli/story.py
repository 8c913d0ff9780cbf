"""A job's visible history as the commands read it: folded, past or live."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec

from tailrace.ops.terminal import say
from tailrace.streams.errors import NoStore
from tailrace.streams.history.fold import Fold, read_head, visible
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.messages import Record
from tailrace.streams.replies import read_feed, read_feed_ends, read_job, to_hints
from tailrace.streams.store.connection import Store

WAIT_SECONDS = 2.0  # then the log is read without a hint, should one have been trimmed away
AWAY_SECONDS = 0.5


async def read_story(store: Store, job_id: str) -> tuple[Record, list[bytes]]:
    """A job's record and its visible events, as they were written."""
    platform, key = split_id(job_id)
    record, events = await read_job(store, PlatformKeys(platform), key)
    return record, [raw for _, raw in visible(job_id, events)]


async def follow_story(store: Store, job_id: str) -> AsyncIterator[bytes]:
    """The visible events of a job from its first to its last, as they come. Once begun, it outlives an absent store."""
    platform, key = split_id(job_id)
    keys = PlatformKeys(platform)
    fold = Fold(job_id)
    read = 0  # events read so far, `queued` included
    # Read before the log: whatever is written after that read is a hint we shall get.
    cursor = (await read_feed_ends(store, [keys["events"]]))[keys["events"]].cursor
    away = False
    async with store.blocking(WAIT_SECONDS) as ears:
        while True:
            try:
                # The feed is a hint that there is something to read, the log is the truth.
                record, events = await read_job(store, keys, key, first=read + 1)
                read += len(events)
                for raw in events:
                    if (head := read_head(raw)) and fold.accept(head):
                        yield raw
                if fold.ended or record.state.ended:
                    return
                cursor = await hinted(ears, keys["events"], key, cursor)
                away = False
            except NoStore as error:
                if not read:
                    raise
                if not away:
                    say(f"{error}; waiting for it")
                away = True
                await anyio.sleep(AWAY_SECONDS)


async def hinted(ears: Store, feed: str, key: str, cursor: str) -> str:
    """Wait until the feed names the job, or has been quiet for a while; the answer is how far the feed was read."""
    while entries := (await read_feed(ears, {feed: cursor}, int(WAIT_SECONDS * 1000))).get(feed):
        cursor = entries[-1][0].decode()
        if any(hint.key == key for hint in to_hints("", entries)):
            break
    return cursor


def decoded(raw: bytes) -> dict[str, Any]:
    """An event as it stands: the fold has seen to the fields that every event has."""
    return msgspec.json.decode(raw, type=dict[str, Any])
