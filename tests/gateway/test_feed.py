"""feed: a reader that was away for long learns whether it missed something, and only listeners get events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import pytest

from tailrace.gateway.live.all_jobs import AllJobsStream
from tailrace.gateway.live.feed import LONG_MS, Feed, far_apart
from tailrace.gateway.live.frames import RESET
from tailrace.gateway.live.live import Live
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Hint
from tailrace.streams.store.connection import Store
from tests.support.eventually import eventually

EVENTS = PlatformKeys("ably")["events"]

# All at once, so that no read can come in between: from the first id to the last, and then only some are kept.
ADD = """
for ms = ARGV[1], ARGV[2], ARGV[3] do
  redis.call('XADD', KEYS[1], string.format('%d-0', ms), string.format('job %d', ms), '')
end
return redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[4])"""


class Ears(Live):
    """Listens to one feed, and remembers what came."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.store = store
        self.told: list[int | str] = []
        self.watched.set()

    def watches(self, platform: str) -> Callable[[str], bool]:
        return lambda _: True

    def hear(self, platform: str, hints: Sequence[Hint]) -> None:
        self.told += [hint.seq for hint in hints]

    def doubt(self, *platforms: str) -> None:
        self.told.append(f"doubt {' '.join(platforms) or None}")

    async def add(self, first: int, last: int, step: int = 1, keep: int = 10_000) -> None:
        """Entries whose ids are far in the past, where time passes as we like."""
        await self.store.command("EVAL", ADD, 1, EVENTS, first, last, step, keep)
        await self.hears(last)

    async def hears(self, word: int | str) -> None:
        await eventually(f"{word} is heard", lambda: asyncio.sleep(0, word in self.told))


@pytest.fixture
async def ears(store_url: str) -> AsyncIterator[Ears]:
    async with Store(store_url) as store:
        ears = Ears(store)
        feed = asyncio.create_task(Feed(store, ["ably", "research"], ears).run())
        try:
            await ears.hears("doubt None")  # it listens from now on
            yield ears
        finally:
            feed.cancel()
            with suppress(asyncio.CancelledError):
                await feed


async def test_after_a_long_silence_nothing_was_missed_though_the_feed_keeps_nothing_of_before(ears: Ears) -> None:
    await ears.add(1, 3)
    await ears.store.command("XTRIM", EVENTS, "MAXLEN", 0)
    await ears.add(3 + LONG_MS, 3 + LONG_MS)
    await ears.add(4 + 3 * LONG_MS, 5 + 3 * LONG_MS, keep=2)
    assert ears.told == ["doubt None", 1, 2, 3, 3 + LONG_MS, 4 + 3 * LONG_MS, 5 + 3 * LONG_MS]


async def test_the_first_event_of_a_platform_that_was_quiet_before_anybody_listened_is_no_reason_to_doubt(
    ears: Ears,
) -> None:
    await ears.add(LONG_MS * 10, LONG_MS * 10)
    assert ears.told == ["doubt None", LONG_MS * 10]


async def test_who_had_not_read_what_was_trimmed_in_a_silence_is_told_once(ears: Ears) -> None:
    await ears.add(1, 3)
    await ears.add(10, 10 + 2 * LONG_MS, step=LONG_MS, keep=1)
    await ears.add(11 + 2 * LONG_MS, 11 + 2 * LONG_MS)
    await ears.add(11 + 4 * LONG_MS, 11 + 4 * LONG_MS, keep=1)
    missed = [10 + 2 * LONG_MS, "doubt ably", 11 + 2 * LONG_MS]
    assert ears.told == ["doubt None", 1, 2, 3, *missed, 11 + 4 * LONG_MS]


async def test_who_falls_behind_what_the_feed_keeps_is_told(ears: Ears) -> None:
    await ears.add(1, 500)
    assert "doubt ably" not in ears.told
    await ears.store.command("EVAL", ADD, 1, EVENTS, 501, 1000, 1, 250)
    await ears.hears("doubt ably")
    await ears.add(1001, 1001)


async def test_a_stream_that_begins_anew_is_told_as_one_that_was_cut(ears: Ears) -> None:
    await ears.add(1, 3)
    await ears.store.command("DEL", EVENTS)
    await ears.add(3 + LONG_MS, 3 + LONG_MS)
    await ears.hears("doubt ably")


async def test_only_who_asked_for_the_platform_is_told_of_a_cut(store_url: str) -> None:
    async with Store(store_url) as store:
        live = Live(store)
        shop, other = (AllJobsStream(live, frozenset({name}), None, 15, missed=False) for name in ("ably", "research"))
        with live.telling(shop), live.telling(other):
            live.doubt("ably")
            assert (shop.take(), other.take()) == (RESET, b"")
            live.doubt()
            assert (shop.take(), other.take()) == (RESET, RESET)


def test_entries_far_apart_in_time_may_have_lost_some_in_between() -> None:
    assert not far_apart("1700000000000-5", "1700000000000-9")
    assert not far_apart("1700000000000-5", f"{1700000000000 + LONG_MS - 1}-0")
    assert far_apart("1700000000000-5", f"{1700000000000 + LONG_MS}-0")
    assert far_apart("0-0", "1700000000000-0")
