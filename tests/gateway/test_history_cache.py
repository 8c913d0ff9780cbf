"""Kept histories: ended jobs are not read again and again, and an old answer is given for at most a second."""

import asyncio
import re

import httpx2
import pytest

from tailrace.gateway.live.history_cache import KEPT_SECONDS, KeptHistories, Told
from tailrace.streams.errors import JobNotFound
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import Store
from tests.gateway.histories import END, history_of, race, story
from tests.support.builders import Desk
from tests.support.eventually import eventually

KEYS = PlatformKeys("research")
TAG = b'"t"'


async def reads(store: Store) -> int:
    """How often the store was asked for a log."""
    found = re.search(rb"cmdstat_lrange:calls=([0-9]+)", await store.command("INFO", "commandstats"))
    return int(found[1]) if found else 0


async def test_a_hot_history_of_an_ended_job_costs_the_store_a_read_a_second(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await (await race(desk, "hot"))()
    before, clock = await reads(store), asyncio.get_running_loop().time()
    for _ in range(100):
        assert story(await history_of(http, "hot")) == END
    seconds = asyncio.get_running_loop().time() - clock
    assert await reads(store) - before <= 1 + seconds / KEPT_SECONDS


async def test_a_history_that_is_gone_from_the_store_is_gone_within_a_second(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await (await race(desk, "forgotten"))()
    await history_of(http, "forgotten")
    await store.command("DEL", desk.keys.record("forgotten"), desk.keys.log("forgotten"))

    async def is_gone() -> bool:
        return (await http.get("/research/history/research.forgotten")).status_code == 404

    await eventually("it is not found", is_gone, seconds=2 * KEPT_SECONDS)


async def test_of_a_job_that_goes_on_nothing_is_kept(http: httpx2.AsyncClient, desk: Desk) -> None:
    held = await desk.start("going")
    for number in range(1, 20):
        await desk.report(held, number)
        assert (await history_of(http, "going"))[-1]["step"] == number
    await desk.complete(held)
    assert (await history_of(http, "going"))[-1]["status"] == "completed"


class Shelf:
    """Something to read from that answers when told to."""

    def __init__(self, *, ended: bool = False) -> None:
        self.reads = 0
        self.ended = ended
        self.opened = asyncio.Event()

    async def read(self, keys: PlatformKeys, key: str) -> Told:
        self.reads += 1
        number = self.reads
        await self.opened.wait()
        if key == "none":
            raise JobNotFound(keys.id(key))
        return Told(b"%d" % number, TAG if self.ended else None)


async def ask(kept: KeptHistories, key: str, times: int) -> list["asyncio.Task[Told]"]:
    tasks = [asyncio.create_task(kept.read(KEYS, key)) for _ in range(times)]
    await asyncio.sleep(0)  # they have asked
    await asyncio.sleep(0)  # and a read has begun
    return tasks


async def test_who_asks_while_a_read_is_under_way_shares_the_next_one() -> None:
    shelf = Shelf()
    kept = KeptHistories(shelf.read)
    (first,) = await ask(kept, "a", 1)
    later = await ask(kept, "a", 10)
    shelf.opened.set()
    assert await first == Told(b"1", None)
    assert await asyncio.gather(*later) == [Told(b"2", None)] * 10
    assert kept.get("research.a") is None, "it has not ended"


async def test_one_who_gives_up_does_not_take_the_read_from_the_others() -> None:
    shelf = Shelf(ended=True)
    kept = KeptHistories(shelf.read)
    impatient, patient = await ask(kept, "a", 2)
    impatient.cancel()
    await asyncio.sleep(0)
    shelf.opened.set()
    assert await patient == Told(b"1", TAG)
    assert impatient.cancelled()
    assert kept.get("research.a") == Told(b"1", TAG)


async def test_a_failed_read_is_told_to_all_and_not_kept() -> None:
    shelf = Shelf(ended=True)
    kept = KeptHistories(shelf.read)
    shelf.opened.set()
    for _ in range(2):
        told = await asyncio.gather(*await ask(kept, "none", 3), return_exceptions=True)
        assert [type(each) for each in told] == [JobNotFound] * 3
    assert kept.get("research.none") is None


@pytest.mark.parametrize("size", [1, 100, 1000])
async def test_the_oldest_are_dropped_when_room_is_short(size: int) -> None:
    async def read(_: PlatformKeys, key: str) -> Told:
        return Told(key.encode() * size, TAG)

    kept = KeptHistories(read, most_bytes=3 * size)
    for key in ("a", "b", "c", "a", "d"):
        await kept.read(KEYS, key)
    assert [bool(kept.get(f"research.{key}")) for key in "abcd"] == [True, False, True, True]
    await kept.read(KEYS, "much" * 4)
    assert not any(kept.get(f"research.{key}") for key in ("a", "c", "d", "much" * 4)), "larger than all the room"
