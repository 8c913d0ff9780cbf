"""The ticker: fires what is due once, sleeps until the next tick, and no schedule holds up another."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NoReturn
from zoneinfo import ZoneInfoNotFoundError

import pytest

from tailrace.consumers.heart.upkeep.schedules import APART_SECONDS, Ticker
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.schedules import Schedules
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.schedules import Schedule
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import TICKS, Transitions
from tests.support.builders import Desk

PERIOD = 3600.0
KURLY, ABLY = PlatformKeys("kurly"), PlatformKeys("ably")


class Scene:
    """One store, some schedules and tickers, and a clock that the test sets by moving the ticks."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.desk = Desk(store, "kurly")
        self.schedules = Schedules(Transitions(store), BUILT_IN)

    def ticker(self, *platforms: PlatformKeys) -> Ticker:
        return Ticker(Transitions(self.store), platforms or (KURLY,), 1.0)

    async def schedule(self, name: str = "n", *, ago: int | None = None, **said: Any) -> int:
        """Keep a schedule that stands at the tick so many periods ago; the answer is that tick."""
        times = {} if "cron" in said else {"every_seconds": PERIOD}
        wanted = Schedule(**{"name": name, "platform": "kurly", "kind": "drill", **times, **said})
        planned = await self.schedules.upsert(wanted)
        assert planned.next_ms is not None
        if ago is None:
            return planned.next_ms
        tick_ms = planned.next_ms - (ago + 1) * round(PERIOD * 1000)
        await self.store.command("ZADD", PlatformKeys(wanted.platform)["ticks"], tick_ms, name)
        return tick_ms

    async def jobs(self) -> list[str]:
        entries = await self.store.command("XRANGE", KURLY.jobs("normal"), "-", "+")
        return [fields[1].decode() for _, fields in entries]


@pytest.fixture
async def scene(valkey_url: str) -> AsyncIterator[Scene]:
    async with Store(valkey_url) as store:
        yield Scene(store)


async def test_without_schedules_it_looks_now_and_then(scene: Scene) -> None:
    assert await scene.ticker(KURLY, ABLY).round() == 1.0


async def test_it_sleeps_until_the_next_tick(scene: Scene) -> None:
    await scene.schedule()
    seconds, micros = await scene.store.command("TIME")
    soon = int(seconds) * 1000 + int(micros) // 1000 + 400
    await scene.store.command("ZADD", KURLY["ticks"], soon, "n")
    assert 0 < await scene.ticker().round() <= 0.4 + APART_SECONDS
    assert await scene.jobs() == []


async def test_a_tick_fires_and_the_ticker_looks_again_at_once(scene: Scene) -> None:
    tick = await scene.schedule(ago=0, missed="once")
    assert await scene.ticker().round() == 0
    assert await scene.jobs() == [f"n-{tick}"]
    assert (await scene.schedules.get("kurly", "n")).next_ms == tick + round(PERIOD * 1000)


async def test_many_tickers_fire_each_tick_once(scene: Scene) -> None:
    ticks = [await scene.schedule(f"n{number}", ago=3, missed="all") for number in range(30)]
    tickers = [scene.ticker() for _ in range(5)]
    for _ in range(3):
        await asyncio.gather(*(ticker.round() for ticker in tickers))
    jobs = await scene.jobs()
    wanted = {f"n{n}-{tick + k * round(PERIOD * 1000)}" for n, tick in enumerate(ticks) for k in range(4)}
    assert len(jobs) == len(set(jobs))
    assert set(jobs) == wanted


async def test_missed_ticks_are_skipped_made_up_for_once_or_all(scene: Scene) -> None:
    tick = await scene.schedule("skip", ago=5, cron="0 * * * *", missed="skip")
    await scene.schedule("once", ago=5, missed="once")
    await scene.schedule("all", ago=5, missed="all")
    await scene.ticker().round()
    jobs = await scene.jobs()
    hours = [tick + k * round(PERIOD * 1000) for k in range(6)]
    assert [job for job in jobs if job.startswith("once")] == [f"once-{hours[-1]}"]
    assert [job for job in jobs if job.startswith("all")] == [f"all-{hour}" for hour in hours]
    fresh = int((await scene.store.command("TIME"))[0]) * 1000 - hours[-1] <= 60_000
    assert fresh or not [job for job in jobs if job.startswith("skip")]


async def test_a_long_debt_is_paid_in_rounds_and_holds_up_no_other_platform(scene: Scene) -> None:
    await scene.schedule("debt", ago=2 * TICKS + 49, missed="all")
    await scene.schedule("other", ago=0, platform="ably", missed="once")
    ticker = scene.ticker(KURLY, ABLY)
    assert await ticker.round() == 0
    assert len(await scene.jobs()) == TICKS
    assert await scene.store.command("XLEN", ABLY.jobs("normal")) == 1
    await ticker.round()
    await ticker.round()
    assert len(await scene.jobs()) == 2 * TICKS + 50
    assert await ticker.round() > 0


async def test_a_schedule_outlives_jobs_that_cannot_be_accepted(scene: Scene) -> None:
    tick = await scene.schedule(ago=1, missed="all")
    await scene.desk.submit(f"n-{tick}", args=b'{"other":"body"}')
    await scene.store.command("SET", KURLY.record(f"n-{tick + round(PERIOD * 1000)}"), "corrupt")
    assert await scene.ticker().round() == 0
    assert (await scene.schedules.get("kurly", "n")).next_ms == tick + 2 * round(PERIOD * 1000)


async def test_a_schedule_outlives_a_job_that_fails(scene: Scene) -> None:
    tick = await scene.schedule(ago=1, missed="all")
    await scene.ticker().round()
    for held in await scene.desk.claim(slots=2):
        assert await scene.desk.fail(held) == "failed"
    await scene.store.command("ZADD", KURLY["ticks"], tick + 1, "n")
    await scene.ticker().round()
    assert (await scene.schedules.get("kurly", "n")).next_ms == tick + 2 * round(PERIOD * 1000)


UNREADABLE = ["corrupt", "{}", '{"name":"n","platform":"kurly","kind":"drill","cron":"x"}']


@pytest.mark.parametrize("definition", UNREADABLE)
async def test_a_schedule_that_cannot_be_read_keeps_its_tick_and_holds_up_no_other(
    scene: Scene, definition: str
) -> None:
    tick = await scene.schedule("good", ago=0, missed="once")
    await scene.store.command("HSET", KURLY["schedules"], "bad", definition)
    await scene.store.command("ZADD", KURLY["ticks"], 1, "bad", 2, "orphan")
    ticker = scene.ticker()
    await ticker.round()
    assert await scene.jobs() == [f"good-{tick}"]
    assert await ticker.round() > 0, "it does not look at them over and over"
    assert await scene.store.command("ZSCORE", KURLY["ticks"], "orphan") is None
    assert await scene.store.command("ZSCORE", KURLY["ticks"], "bad") == b"1"


async def test_a_ticker_without_a_time_zone_database_leaves_the_tick_to_one_that_has_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = await scene.schedule(ago=0, cron="0 * * * *", tz="Asia/Seoul", missed="once")
    with monkeypatch.context() as poor:
        poor.setattr("tailrace.streams.schedules.ZoneInfo", no_time_zones)
        assert await scene.ticker().round() > 0
    assert await scene.jobs() == []
    assert (await scene.schedules.get("kurly", "n")).next_ms == tick
    await scene.ticker().round()
    assert await scene.jobs() == [f"n-{tick}"]


def no_time_zones(name: str) -> NoReturn:
    raise ZoneInfoNotFoundError(name)


async def test_a_ticker_that_is_too_old_for_a_schedule_leaves_the_tick_to_a_newer_one(scene: Scene) -> None:
    tick = await scene.schedule(ago=0, missed="once")
    definition = await scene.store.command("HGET", KURLY["schedules"], "n")
    newer = definition.replace(b'"name"', b'"jitter_seconds":3,"name"')
    await scene.store.command("HSET", KURLY["schedules"], "n", newer)
    ticker = scene.ticker()
    for _ in range(3):
        assert await ticker.round() > 0
    assert await scene.store.command("ZSCORE", KURLY["ticks"], "n") == str(tick).encode()


async def test_any_number_of_unreadable_schedules_hides_no_readable_one(scene: Scene) -> None:
    tick = await scene.schedule("good", ago=0, missed="once")
    for number in range(2 * TICKS + 50):
        await scene.store.command("HSET", KURLY["schedules"], f"bad{number}", "{}")
        await scene.store.command("ZADD", KURLY["ticks"], 1, f"bad{number}")
    ticker = scene.ticker()
    for _ in range(3):
        await ticker.round()
    assert await scene.jobs() == [f"good-{tick}"]
    assert await ticker.round() == 0, "there are more behind the first page"
    await ticker.round()
    assert await ticker.round() > 0, "all were looked at"


async def test_an_unreadable_schedule_is_reported_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    await scene.store.command("HSET", KURLY["schedules"], "bad", "{}")
    await scene.store.command("ZADD", KURLY["ticks"], 1, "bad")
    ticker = scene.ticker()
    for _ in range(3):
        await ticker.round()
    assert caplog.text.count("schedule_unreadable") == 1


async def test_a_platform_whose_keys_are_corrupt_holds_up_no_other(scene: Scene) -> None:
    await scene.store.command("SET", ABLY["ticks"], "corrupt")
    tick = await scene.schedule(ago=0, missed="once")
    await scene.ticker(ABLY, KURLY).round()
    assert await scene.jobs() == [f"n-{tick}"]


async def test_a_paused_schedule_does_not_fire_and_owes_nothing_when_it_is_resumed(scene: Scene) -> None:
    await scene.schedule(ago=3, missed="all")
    await scene.schedules.pause("kurly", "n")
    await scene.ticker().round()
    await scene.schedules.resume("kurly", "n")
    await scene.ticker().round()
    assert await scene.jobs() == []


async def test_one_look_at_many_platforms_is_one_script_for_those_that_have_schedules(scene: Scene) -> None:
    platforms = [PlatformKeys(name) for name in BUILT_IN]
    ticker = scene.ticker(*platforms)
    await scene.schedule(ago=-3600)
    await ticker.round()
    await scene.store.command("CONFIG", "RESETSTAT")
    await ticker.round()
    stats = (await scene.store.command("INFO", "commandstats")).decode()
    assert "cmdstat_evalsha:calls=1," in stats
    await scene.schedules.pause("kurly", "n")
    await scene.store.command("CONFIG", "RESETSTAT")
    await ticker.round()
    assert "cmdstat_evalsha" not in (await scene.store.command("INFO", "commandstats")).decode()


async def test_a_store_that_is_away_or_full_is_waited_for(scene: Scene) -> None:
    tick = await scene.schedule(ago=0, missed="once")
    ticker = Ticker(Transitions(scene.store), (KURLY,), 0.05)
    await scene.store.command("SET", "filler", b"x" * 2_000_000)
    await scene.store.command("CONFIG", "SET", "maxmemory", "1mb")
    running = asyncio.create_task(ticker.run())
    try:
        await asyncio.sleep(0.2)  # a few rounds that are refused
        assert await scene.jobs() == []
        await scene.store.command("CONFIG", "SET", "maxmemory", "0")
        async with asyncio.timeout(20):
            while not await scene.jobs():  # noqa: ASYNC110 - another task's work in the store
                await asyncio.sleep(0.01)
    finally:
        await scene.store.command("CONFIG", "SET", "maxmemory", "0")
        running.cancel()
    assert await scene.jobs() == [f"n-{tick}"]
