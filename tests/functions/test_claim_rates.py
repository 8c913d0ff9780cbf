"""claim: how many start within a time, and until when a platform is held."""

import time
from typing import Any

import pytest
from msgspec.structs import replace

from tailrace.streams.store.connection import Store
from tests.functions.claims import ask, keys_of
from tests.support.builders import Desk
from tests.support.eventually import eventually

HOUR = 3600.0


async def test_no_more_start_within_the_window_and_the_answer_says_when_it_opens(store: Store) -> None:
    desk = Desk(store, rate=3, rate_seconds=60)
    await desk.submit(*(f"job-{n}" for n in range(8)))
    claims, again = await ask(desk, 2)
    assert (len(claims), again) == (2, None), "every slot was filled"
    claims, again = await ask(desk, 9, "bob")
    assert keys_of(claims) == ["job-2"]
    assert again is not None
    assert 0 < again <= 60_000
    claims, again = await ask(desk, 9, "bob")
    assert claims == []
    assert again is not None
    await set_back(desk, again)
    assert 2 <= len(await desk.claim("bob", 9)) <= 3


async def set_back(desk: Desk, milliseconds: int) -> None:
    """As if the last starts had been that much earlier."""
    starts = await desk.store.command("LRANGE", desk.keys["starts"], 0, -1)
    earlier = [int(start) - milliseconds for start in starts]
    await desk.store.commands([("DEL", desk.keys["starts"]), ("RPUSH", desk.keys["starts"], *earlier)])


async def test_the_window_is_exact_by_the_times_of_the_starts(store: Store) -> None:
    desk = Desk(store, rate=5, rate_seconds=0.2)
    await desk.submit(*(f"job-{n}" for n in range(30)))
    started: list[str] = []

    async def all_started() -> bool:
        started.extend(keys_of(await desk.claim("ann", 2)))
        return len(started) == 30

    await eventually("all started", all_started)
    times = [int(((await desk.record(key)).started or "").partition("-")[2][:13]) for key in started]
    assert all(later - earlier >= 200 for earlier, later in zip(times, times[5:], strict=False))
    await eventually("the times of the starts are gone", lambda: nothing_of(desk, "starts"))


async def nothing_of(desk: Desk, name: str) -> bool:
    return not await desk.store.command("EXISTS", desk.keys[name])


async def test_a_clock_that_was_set_back_does_not_close_the_window_for_long(store: Store) -> None:
    desk = Desk(store, rate=1, rate_seconds=1)
    ahead = int((time.time() + HOUR) * 1000)
    await desk.store.command("RPUSH", desk.keys["starts"], ahead)
    await desk.submit("a")
    assert keys_of(await desk.claim()) == ["a"]


async def test_each_limit_key_has_a_window_of_its_own(store: Store) -> None:
    desk = Desk(store, key_rate=2, key_rate_seconds=60)
    await desk.submit("a1", "a2", "a3", limit_key="a")
    await desk.submit("b1", limit_key="b")
    await desk.submit("c")
    claims, again = await ask(desk)
    assert keys_of(claims) == ["a1", "a2", "b1", "c"]
    assert again is not None
    assert 0 < again <= 60_000
    for held in claims:
        await desk.complete(held)
    assert (await ask(desk))[0] == []
    await ring_alarm(desk, "a")
    (held,) = (await ask(desk))[0]
    assert held.key == "a3"
    await desk.complete(held)
    for label in ("a", "b"):
        assert 0 < await desk.store.command("PTTL", desk.keys.starts(label)) <= 60_000, "it goes by itself"
        await ring_alarm(desk, label)
    await desk.transitions.wake([(desk.keys, desk.policy)])
    assert await desk.leftovers() == []


async def test_whoever_parks_a_job_and_is_full_lets_others_know_of_the_time(store: Store) -> None:
    desk = Desk(store, key_rate=1, key_rate_seconds=60)
    await desk.submit("a1", "a2", limit_key="a")
    await desk.submit("b")
    assert (await ask(desk, 9, "idle"))[0] != []
    desk = Desk(store, "other", key_rate=1, key_rate_seconds=60)
    await desk.submit("a1", "a2", limit_key="a")
    await desk.submit("b")
    await desk.asleep("zoe")
    assert keys_of((await ask(desk, 2, "full"))[0]) == ["a1", "b"]
    assert await desk.called() == ["zoe"]


async def ring_alarm(desk: Desk, label: str) -> None:
    """As if the time had come at which the limit key may start again; its window has passed."""
    await desk.store.command("DEL", desk.keys.starts(label))
    await desk.store.command("ZADD", desk.keys["alarms"], "XX", 1, f"*{label}")


async def test_an_alarm_calls_only_as_many_parked_jobs_as_may_start(store: Store) -> None:
    desk = Desk(store, key_rate=2, key_rate_seconds=60)
    jobs = [f"k{n:03}" for n in range(300)]
    await desk.submit(*jobs, limit_key="k")
    running = keys_of(await desk.claim("ann", 300))
    while keys := keys_of(await desk.claim("ann", 300)):
        running += keys
    assert running == jobs[:2]
    while len(await desk.pending()) < len(jobs):
        await desk.claim("ann", 300)  # it looks at some of them
    assert await desk.store.command("ZCARD", desk.keys.parked("k")) == 298
    await ring_alarm(desk, "k")
    for _ in range(3):
        await desk.transitions.wake([(desk.keys, desk.policy)])
        assert await desk.front() == jobs[2:4]
    assert keys_of(await desk.claim("ann", 300)) == jobs[2:4]
    assert len(await desk.front()) <= 2
    assert await desk.claim("ann", 300) == []
    assert await desk.front() == []
    assert await desk.store.command("ZSCORE", desk.keys["alarms"], "*k") is not None, "the next ones are called then"


async def test_an_alarm_calls_no_more_than_the_key_has_places(store: Store) -> None:
    desk = Desk(store, max_running_per_key=3, key_rate=5, key_rate_seconds=60)
    await desk.submit(*(f"k{n}" for n in range(9)), limit_key="k")
    claims = await desk.claim("ann", 9)
    assert len(claims) == 3
    await desk.store.command("ZADD", desk.keys["alarms"], 1, "*k")
    await desk.transitions.wake([(desk.keys, desk.policy)])
    assert await desk.front() == [], "all places are taken: an end calls the next"
    await desk.complete(claims[0])
    assert await desk.front() == ["k3"]


@pytest.mark.parametrize("rules", [{"key_rate": 3}, {"key_rate": 3, "max_running_per_key": 2}])
async def test_all_parked_jobs_of_a_rate_start_one_after_the_other_without_another_submit(
    store: Store, rules: dict[str, Any]
) -> None:
    desk = Desk(store, **rules, key_rate_seconds=0.1)
    jobs = [f"k{n:02}" for n in range(20)]
    await desk.submit(*jobs, limit_key="k")
    started: list[str] = []

    async def all_started() -> bool:
        claims, again = await ask(desk)
        for held in claims:
            await desk.complete(held)
        started.extend(keys_of(claims))
        assert started == jobs[: len(started)]
        waits = len(started) < len(jobs) and not claims
        assert not waits or again is not None, "a time is set while jobs are parked"
        return len(started) == len(jobs)

    await eventually("all started", all_started)


async def test_a_called_job_that_its_order_holds_back_calls_another_of_its_rate(store: Store) -> None:
    desk = Desk(store, key_rate=1, key_rate_seconds=60)
    await desk.submit("first", order_key="o")
    await desk.submit("k0", limit_key="k")
    await desk.submit("k1", limit_key="k", order_key="p")
    await desk.submit("k2", limit_key="k")
    assert keys_of(await desk.claim("ann", 9)) == ["first", "k0"]
    await desk.store.command("HSET", desk.keys["orders"], "p", "first")  # as if it ran a job of k1's order
    await ring_alarm(desk, "k")
    assert keys_of([*await desk.claim("ann", 9), *await desk.claim("ann", 9)]) == ["k2"]


async def test_a_platform_that_is_held_starts_nothing_until_then(store: Store) -> None:
    desk = Desk(store)
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    assert await desk.delay(held, 60, hold=True) == "ok"
    assert int(await desk.store.command("HGET", desk.keys["control"], "held_until_ms")) > time.time() * 1000
    claims, again = await ask(desk)
    assert claims == []
    assert again is not None
    assert 0 < again <= 60_000
    await desk.store.command("HINCRBY", desk.keys["control"], "held_until_ms", -again)
    await desk.past_due("a")
    assert keys_of((await ask(desk))[0]) == ["a", "b"], "the one that was told so is due, and first"


async def test_a_shorter_hold_does_not_end_a_longer_one(store: Store) -> None:
    desk = Desk(store)
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", 2)
    await desk.delay(first, HOUR, hold=True)
    until = await desk.store.command("HGET", desk.keys["control"], "held_until_ms")
    await desk.delay(second, 0.01, hold=True)
    assert await desk.store.command("HGET", desk.keys["control"], "held_until_ms") == until


async def test_when_the_rates_of_many_keys_open_at_once_a_bounded_number_comes_to_the_front(store: Store) -> None:
    """Each that starts calls two others, so none is forgotten; a call that brought all would take long."""
    desk = Desk(store, key_rate=1, key_rate_seconds=HOUR)
    for label in ("one", "two"):
        await desk.submit(*(f"{label}-{number}" for number in range(31)), limit_key=label)
    while len((await ask(desk, 40))[0]) > 0 or len(await desk.pending()) < 62:
        pass
    desk.policy = replace(desk.policy, key_rate=50)
    for label in ("one", "two"):
        await store.command("ZADD", desk.keys["alarms"], 1, f"*{label}")
    await desk.transitions.wake([(desk.keys, desk.policy)])
    assert len(await desk.front()) == 10
    started: list[str] = []
    while claims := await desk.claim(slots=40):
        started += keys_of(claims)
    assert len(set(started)) == len(started) == 60
