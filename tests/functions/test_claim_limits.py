"""claim: how many run at a time, and what waits beside the line meanwhile."""

import time
from datetime import UTC, datetime

import pytest

from tailrace.streams.messages import Claim
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.functions.claims import ask, keys_of
from tests.support.builders import Desk

HOUR = 3600.0


async def test_so_many_jobs_of_a_limit_key_run_at_a_time_and_others_pass_them(store: Store) -> None:
    desk = Desk(store, max_running_per_key=2)
    await desk.submit("a1", "a2", "a3", "a4", limit_key="a")
    await desk.submit("b1", limit_key="b")
    await desk.submit("c")
    claims, again = await ask(desk)
    assert keys_of(claims) == ["a1", "a2", "b1", "c"]
    assert again is None, "nothing changes by itself"
    await desk.asleep("zoe")
    await desk.complete(claims[1])
    assert await desk.called() == ["zoe"]
    assert keys_of((await ask(desk))[0]) == ["a3"]
    await desk.complete(claims[0])
    assert keys_of((await ask(desk))[0]) == ["a4"]


@pytest.mark.parametrize("how", ["complete", "fail", "retry", "delay", "release", "reclaim", "cancel", "lost for good"])
async def test_however_an_attempt_ends_its_place_is_given_on_and_nothing_leaks(store: Store, how: str) -> None:
    desk = Desk(store, max_running_per_key=1, max_crashes=1 if how == "lost for good" else 3)
    await desk.submit("a", "b", limit_key="k", order_key="k")
    (held,) = await desk.claim("ann", 9)
    await end(desk, held, how)
    if how in ("retry", "delay"):
        assert await desk.claim("bob", 9) == []  # its order is kept
        await desk.past_due("a")
    while claims := await desk.claim("bob", 9):
        assert len(claims) == 1
        await desk.complete(claims[0])
    assert (await desk.record("a")).state.ended
    assert (await desk.record("b")).state is State.COMPLETED
    assert await desk.leftovers() == []
    assert (await desk.line(), await desk.pending()) == ([], [])


async def end(desk: Desk, held: Claim, how: str) -> None:
    if how == "complete":
        await desk.complete(held)
    elif how == "fail":
        await desk.fail(held)
    elif how == "retry":
        await desk.fail(held, attempts=2, seconds=HOUR)
    elif how == "delay":
        await desk.delay(held, HOUR)
    elif how == "release":
        await desk.release(held)
    elif how in ("reclaim", "lost for good"):
        await desk.reclaim(held)
    elif how == "cancel":
        await desk.cancel(held.key)
        await desk.release(held)


@pytest.mark.parametrize("how", ["cancel", "expire"])
async def test_a_place_offered_to_a_job_that_ends_instead_goes_to_the_next(store: Store, how: str) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", limit_key="k")
    until = datetime.fromtimestamp(time.time() + HOUR, UTC).isoformat()
    await desk.submit("b", limit_key="k", expires_at=until)
    await desk.submit("c", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.complete(held)
    assert await desk.front() == ["b"]
    if how == "cancel":
        await desk.cancel("b")
    else:
        await desk.store.command("ZADD", desk.keys["alarms"], "XX", 1, "!b")
        await desk.transitions.wake([(desk.keys, desk.policy)])
    (held,) = await desk.claim("ann", 9)
    assert held.key == "c"
    await desk.complete(held)
    assert set(await desk.leftovers()) <= {desk.keys["alarms"]}, "a cancelled job may be reopened, and expire then"


async def test_cancelled_jobs_leave_the_place_where_they_were_parked(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", "b", "c", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.cancel("b")
    await desk.cancel("c")
    await desk.complete(held)
    assert await desk.claim("ann", 9) == []
    assert await desk.leftovers() == []


async def test_a_reopened_job_counts_once(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", "b", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.fail(held)
    await desk.transitions.reopen(desk.keys, "a")
    for key in ("b", "a"):
        (held,) = await desk.claim("ann", 9)
        assert held.key == key
        await desk.complete(held)
    assert await desk.leftovers() == []


async def test_a_raised_limit_lets_those_go_on_that_were_parked_under_the_old_one(store: Store) -> None:
    desk, raised = Desk(store, max_running_per_key=1), Desk(store, max_running_per_key=3)
    raised.fresh = desk.fresh
    await desk.submit(*"abcdef", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.complete(held)
    first = await raised.claim("bob", 9)
    assert keys_of([*first, *await raised.claim("bob", 9)]) == ["b", "c", "d"]


async def test_parked_jobs_come_again_after_the_groups_were_destroyed(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", "b", "c", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.destroy_groups()
    assert await desk.claim("bob", 9) == []
    ran = []
    while held:
        ran.append(held.key)
        await desk.complete(held)
        held, *_ = [*await desk.claim("bob", 9), None]
    assert ran == ["a", "b", "c"]
    assert await desk.leftovers() == []


async def test_many_parked_jobs_at_the_front_hide_nobody_behind_them(store: Store) -> None:
    """They were called to the front and may not go on after all: behind them is one that may."""
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("k0", limit_key="k")
    await desk.submit(*(f"k{n}" for n in range(1, 100)), limit_key="k")
    await desk.submit("other")
    (k0,) = await desk.claim("ann", 2)
    while not (claims := await desk.claim("ann")):
        pass
    (other,) = claims
    assert (k0.key, other.key) == ("k0", "other")
    parked = await desk.store.command("ZRANGE", desk.keys.parked("k"), 0, -1, "WITHSCORES")
    for key, score in zip(parked[::2], parked[1::2], strict=True):
        await desk.store.command("ZADD", desk.keys.front("normal"), score, key)
    await desk.release(other)
    waits = []
    while not (found := await ask(desk, 1))[0]:
        waits.append(found[1])
        assert len(waits) < 9
    assert keys_of(found[0]) == ["other"]
    assert set(waits) == {0}, "come again at once"


async def test_a_place_that_a_job_cannot_take_is_for_another(store: Store) -> None:
    """Its order holds it back: who waits behind it for the same limit key goes on."""
    desk = Desk(store, max_running_per_key=1, order="skip")
    await desk.submit("x", order_key="K")
    (x,) = await desk.claim()
    await desk.fail(x, attempts=5, order="skip", seconds=HOUR)
    await desk.submit("z", limit_key="L")
    (z,) = await desk.claim()
    await desk.submit("b", order_key="K", limit_key="L")
    await desk.submit("c", limit_key="L")
    assert await desk.claim(slots=5) == []
    await desk.past_due("x")
    (x,) = await desk.claim(slots=5)
    assert x.key == "x"
    await desk.complete(z)
    assert [held.key for held in await desk.claim(slots=5)] == ["c"]


async def test_nobody_stays_parked_after_the_groups_were_destroyed(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", limit_key="L")
    (held,) = await desk.claim()
    await desk.submit("b", limit_key="L")
    await desk.submit("c", limit_key="L", band="high")
    await desk.submit("d", limit_key="L")
    assert await desk.claim(slots=5) == []
    await desk.destroy_groups()
    done = []
    for _ in range(4):
        await desk.complete(held)
        done.append(held.key)
        (held, *_) = [*await desk.claim(slots=5), held]
    assert sorted(done) == ["a", "b", "c", "d"]
