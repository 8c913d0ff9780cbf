"""wake and claim after the store's clock was set back: no wait with a length lasts longer than that."""

import time
from datetime import UTC, datetime

import pytest

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Dedupe
from tailrace.streams.schedules import Agenda
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk

HOUR = 3600.0
HOUR_MS = 3_600_000


async def wake(desk: Desk) -> int:
    return await desk.transitions.wake([(desk.keys, desk.policy)])


async def set_back(desk: Desk) -> None:
    """The clock was an hour ahead until now: every time that was kept lies an hour further away."""
    for name in ("due", "alarms", "ticks"):
        times = await desk.store.command("ZRANGE", desk.keys[name], 0, -1, "WITHSCORES")
        for member, at in zip(times[::2], times[1::2], strict=True):
            await desk.store.command("ZADD", desk.keys[name], float(at) + HOUR_MS, member)
    for field in ("latest_ms", "held_until_ms"):
        if at := await desk.store.command("HGET", desk.keys["control"], field):
            await desk.store.command("HSET", desk.keys["control"], field, int(at) + HOUR_MS)


async def rests_seconds(desk: Desk, name: str, member: str) -> float:
    seconds, micros = await desk.store.command("TIME")
    at = await desk.store.command("ZSCORE", desk.keys[name], member)
    return float(at) / 1000 - int(seconds) - int(micros) / 1_000_000


@pytest.mark.parametrize("looks", ["wake", "claim"])
async def test_relative_waits_are_shortened_and_points_in_time_stay(desk: Desk, looks: str) -> None:
    await desk.fail(await desk.start("retry"), attempts=3, seconds=30)
    await desk.delay(await desk.start("delay"), 30)
    await desk.submit("later", delay_seconds=30)
    at = datetime.fromtimestamp(time.time() + HOUR, UTC).isoformat()
    await desk.submit("at", run_at=at, expires_at=datetime.fromtimestamp(time.time() + 2 * HOUR, UTC).isoformat())
    await set_back(desk)
    await (wake(desk) if looks == "wake" else desk.claim())
    for key in ("retry", "delay", "later"):
        assert 25 < await rests_seconds(desk, "due", key) <= 30
    assert await rests_seconds(desk, "due", "at") > HOUR
    assert await rests_seconds(desk, "alarms", "!at") > 2 * HOUR


async def test_a_replaced_delay_has_the_length_of_the_newest(desk: Desk) -> None:
    dedupe = Dedupe("k", "debounce")
    await desk.submit("a", delay_seconds=30, dedupe=dedupe)
    await desk.submit("b", delay_seconds=300, dedupe=dedupe)
    await set_back(desk)
    await wake(desk)
    assert 290 < await rests_seconds(desk, "due", "a") <= 300


async def test_a_clock_that_behaves_costs_one_note_a_second(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=HOUR)
    await wake(desk)
    before = await desk.store.command("HGET", desk.keys["control"], "latest_ms")
    await wake(desk)
    assert await desk.store.command("HGET", desk.keys["control"], "latest_ms") == before
    assert await desk.store.command("HGET", desk.keys["control"], "clock_walk") is None
    assert HOUR - 10 < await rests_seconds(desk, "due", "a") <= HOUR


async def test_many_times_are_put_right_page_by_page(desk: Desk) -> None:
    await desk.submit(*(f"job-{number}" for number in range(1000)), delay_seconds=30)
    await set_back(desk)
    calls = 1
    await wake(desk)
    while await desk.store.command("HGET", desk.keys["control"], "clock_walk"):
        await wake(desk)
        calls += 1
        assert calls < 20
    assert calls > 2
    last = await desk.store.command("ZRANGE", desk.keys["due"], -1, -1)
    assert await rests_seconds(desk, "due", last[0].decode()) <= 30


async def test_an_idle_consumer_is_called_when_waits_were_shortened(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=30)
    assert await desk.claim("idle") == []
    await set_back(desk)
    await wake(desk)
    assert await desk.called() == ["idle"]


async def test_a_hold_lasts_no_longer_than_its_length(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    await desk.delay(held, 0.05, hold=True)
    await set_back(desk)
    assert await desk.claim(slots=2) == []
    until = int(await desk.store.command("HGET", desk.keys["control"], "held_until_ms"))
    assert until <= time.time() * 1000 + 60
    deadline = time.monotonic() + 20
    started: list[str] = []
    while len(started) < 2 and time.monotonic() < deadline:
        started += [claim.key for claim in await desk.claim(slots=2)]
    assert sorted(started) == ["a", "b"]


async def test_a_shorter_hold_counts_after_the_clock_was_set_back(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", 2)
    await desk.delay(first, 1, hold=True)
    await set_back(desk)
    await desk.delay(second, 5, hold=True)
    until = int(await desk.store.command("HGET", desk.keys["control"], "held_until_ms"))
    assert time.time() * 1000 + 3000 < until <= time.time() * 1000 + 5000


async def test_parked_jobs_of_a_rate_are_called(store: Store) -> None:
    desk = Desk(store, key_rate=1, key_rate_seconds=60)
    await desk.submit("a", "b", limit_key="k")
    assert [held.key for held in await desk.claim(slots=2)] == ["a"]
    await wake(desk)
    await set_back(desk)
    starts = desk.keys.starts("k")
    await desk.store.command("LSET", starts, 0, int(await desk.store.command("LINDEX", starts, 0)) + HOUR_MS)
    await wake(desk)
    assert [held.key for held in await desk.claim(slots=2)] == ["b"]


async def test_schedules_of_every_n_seconds_tick_again_and_cron_stays(desk: Desk) -> None:
    now_ms = int(time.time() * 1000)
    for name, definition in (("every", b'{"every_seconds":30}'), ("cron", b'{"cron":"0 * * * *"}'), ("bad", b"{")):
        await desk.transitions.schedule(desk.keys, name, "", definition, now_ms + 20_000)
    await look(desk)
    await set_back(desk)
    await look(desk)
    assert 0 < await rests_seconds(desk, "ticks", "every") <= 30
    tick = float(await desk.store.command("ZSCORE", desk.keys["ticks"], "every"))
    assert tick % 30_000 == 0, "on the same grid as before"
    for name in ("cron", "bad"):
        assert await rests_seconds(desk, "ticks", name) > HOUR


async def look(desk: Desk) -> Agenda:
    (agenda,) = await desk.transitions.agenda([(PlatformKeys(desk.keys.platform), 0)])
    assert isinstance(agenda, Agenda)
    return agenda
