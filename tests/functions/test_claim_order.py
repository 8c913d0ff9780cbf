"""claim: who goes first, which band gets its share, and the strict order of an order key."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from tailrace.streams.keys import BANDS
from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk

HOUR = 3600.0


async def in_order(desk: Desk, count: int, slots: int = 1) -> list[str]:
    """Who starts, claim by claim, when each job ends at once."""
    started: list[str] = []
    while len(started) < count:
        claims = await desk.claim("ann", slots)
        assert claims, f"nothing came after {started}"
        for held in claims:
            started.append(held.key)
            await desk.complete(held)
    return started


def bands_of(keys: Sequence[str]) -> str:
    return "".join(key[0] for key in keys)


async def flood(desk: Desk, count: int, bands: Sequence[str] = BANDS) -> None:
    for band in bands:
        await desk.submit(*(f"{band}-{n:03}" for n in range(count)), band=band)


async def test_every_tenth_start_is_for_a_lower_band_and_they_take_turns(desk: Desk) -> None:
    await flood(desk, 100)
    started = await in_order(desk, 60)
    expected = "uuuuuuuuu" + "n" + "uuuuuuuuu" + "l" + "uuuuuuuuu" + "h"
    assert bands_of(started) == expected * 2
    for band in BANDS:
        own = [key for key in started if key.startswith(band)]
        assert own == sorted(own), "first in, first out, in each band"


@pytest.mark.parametrize("slots", [3, 10, 25, 100])
async def test_the_share_is_the_same_however_many_start_in_one_call(desk: Desk, slots: int) -> None:
    await flood(desk, 300)
    claims = [await desk.claim("ann", slots) for _ in range(300 // slots)]
    started = bands_of([held.key for some in claims for held in some])
    assert {band: started.count(band) for band in "uhnl"} == {"u": 270, "h": 10, "n": 10, "l": 10}


async def test_a_band_without_waiting_jobs_gives_its_turn_to_the_next(desk: Desk) -> None:
    await flood(desk, 1, ["high", "normal"])
    assert len(await desk.claim("bob", 2)) == 2  # they run: their entries are still in their lines
    await flood(desk, 100, ["urgent", "low"])
    started = bands_of(await in_order(desk, 40))
    assert started.count("l") == 4


async def test_what_one_band_leaves_free_is_for_the_others(desk: Desk) -> None:
    await flood(desk, 5, ["urgent", "low"])
    assert sorted(bands_of([held.key for held in await desk.claim("ann", 50)])) == list("lllll" + "uuuuu")


async def test_without_a_share_the_bands_are_strict(store: Store) -> None:
    desk = Desk(store, share=0)
    await flood(desk, 30)
    assert bands_of(await in_order(desk, 120, slots=7)) == "u" * 30 + "h" * 30 + "n" * 30 + "l" * 30


async def test_starts_of_one_band_alone_are_not_counted(desk: Desk) -> None:
    await flood(desk, 25, ["normal"])
    await in_order(desk, 25)
    assert await desk.store.command("HGET", desk.keys["control"], "turn") is None


async def test_due_released_and_reclaimed_jobs_go_before_those_of_their_priority(desk: Desk) -> None:
    await desk.submit("later", band="low", delay_seconds=HOUR)
    await desk.submit("a", "b", band="low")
    released, reclaimed = await desk.claim("ann", 2)
    await desk.submit("newer", band="low")
    await flood(desk, 2, ["urgent"])
    await desk.reclaim(reclaimed)
    await desk.release(released)
    await desk.past_due("later")
    assert await in_order(desk, 6) == ["urgent-000", "urgent-001", "later", "a", "b", "newer"]


async def test_an_urgent_job_does_not_wait_behind_a_hundred_low_ones_whose_time_has_come(desk: Desk) -> None:
    delayed = [f"low-{n:03}" for n in range(100)]
    await desk.submit(*delayed, band="low", delay_seconds=HOUR)
    await desk.past_due(*delayed)
    await desk.submit("urgent", band="urgent")
    assert (await in_order(desk, 1)) == ["urgent"]


async def test_a_low_job_that_waited_for_its_limit_key_lets_an_urgent_one_pass(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("runs", "parked", band="low", limit_key="l")
    (held,) = await desk.claim("ann", 2)
    await desk.submit("urgent", band="urgent")
    await desk.complete(held)
    assert await in_order(desk, 2) == ["urgent", "parked"]


async def test_a_low_job_that_waited_for_its_order_lets_an_urgent_one_pass(desk: Desk) -> None:
    await desk.submit("runs", "parked", band="low", order_key="o")
    (held,) = await desk.claim("ann", 2)
    await desk.submit("urgent", band="urgent")
    await desk.complete(held)
    assert await in_order(desk, 2) == ["urgent", "parked"]


async def test_what_waited_counts_in_the_share(desk: Desk) -> None:
    """Ten starts of jobs that came back: one of them is for the lower band, as of ten from the line."""
    returned = [f"urgent-{n:03}" for n in range(30)]
    await desk.submit(*returned, band="urgent", delay_seconds=HOUR)
    await desk.past_due(*returned)
    await desk.submit(*(f"low-{n:03}" for n in range(9)), band="low")
    assert bands_of(await in_order(desk, 20)) == ("u" * 9 + "l") * 2


async def test_more_at_a_front_than_one_call_looks_at_are_called_by_the_next(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("runs", limit_key="l")
    await desk.claim()
    await desk.submit(*(f"called-{n:03}" for n in range(80)), limit_key="l", delay_seconds=HOUR)
    await desk.submit("goes", delay_seconds=HOUR)
    await desk.past_due(*(f"called-{n:03}" for n in range(80)), "goes")
    for _ in range(2):
        await desk.transitions.wake([(desk.keys, desk.policy)])
    waits, claims = [], []
    for _ in range(9):
        (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming("bob", desk.nonces("bob", 1))])
        if claims := to_claims(answer):
            break
        waits.append(answer[0])
    assert ([held.key for held in claims], set(waits)) == (["goes"], {b"0"})


async def test_a_first_job_goes_before_all_that_waits_and_the_newest_before_other_first_ones(desk: Desk) -> None:
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    await desk.release(held)
    await desk.submit("urgent", band="urgent")
    await desk.submit("first", band="low", first=True)
    await desk.submit("newest", first=True)
    assert await in_order(desk, 5) == ["newest", "first", "urgent", "a", "b"]
    assert await desk.claim(slots=9) == [], "what went first does not come again in its turn"
    assert [await desk.line(band) for band in BANDS] == [[], [], [], []]


@pytest.mark.parametrize("what", ["first", "due"])
async def test_a_job_that_ran_before_its_turn_pends_under_no_strangers_name(desk: Desk, what: str) -> None:
    if what == "first":
        await desk.submit("a", first=True)
    else:
        await desk.submit("a", delay_seconds=HOUR)
        await desk.past_due("a")
    (held,) = await desk.claim("ann")
    assert await desk.claim("bob") == []  # the line brings its entry to bob, who has nothing to do with it
    assert [owner for _, owner in await desk.pending()] == ["front"]
    assert await desk.complete(held) == "ok"
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_jobs_of_an_order_key_run_one_after_the_other(desk: Desk) -> None:
    await desk.submit("a1", "a2", "a3", order_key="a")
    await desk.submit("b1", order_key="b")
    await desk.submit("c")
    claims = await desk.claim("ann", 9)
    assert [held.key for held in claims] == ["a1", "b1", "c"]
    assert await desk.claim("bob", 9) == []
    await desk.complete(claims[0])
    (second,) = await desk.claim("bob", 9)
    assert second.key == "a2"


async def test_an_order_spans_the_bands_even_within_a_millisecond(desk: Desk) -> None:
    """All in one call: their entries have the same time, and numbers that count in each band on its own."""
    jobs = [desk.job(f"{9 - n}", order_key="k", priority=BANDS[(3 - n) % 4]) for n in range(9)]
    await desk.transitions.submit([(job, "same") for job in jobs])
    assert await in_order(desk, 9) == [job.key for job in jobs]
    assert await desk.leftovers() == []


async def finish_head(desk: Desk, held: Claim, how: str) -> None:
    """An attempt of the head ends, and the job is not done yet."""
    if how == "retry":
        assert await desk.fail(held, attempts=9, seconds=HOUR) == "retrying"
        assert await desk.claim("bob", 9) == [], "those behind it wait"
        await desk.past_due(held.key)
    elif how == "delay":
        assert await desk.delay(held, HOUR) == "ok"
        assert await desk.claim("bob", 9) == []
        await desk.past_due(held.key)
    elif how == "crash":
        assert await desk.reclaim(held) == "reclaimed"
    elif how == "release":
        assert await desk.release(held) == "ok"


@pytest.mark.parametrize("destroyed", [False, True])
@pytest.mark.parametrize("how", ["retry", "delay", "crash", "release"])
async def test_an_order_survives(desk: Desk, how: str, destroyed: bool) -> None:
    await desk.submit("z", "m", "a", order_key="k")
    (held,) = await desk.claim("ann", 9)
    if destroyed:
        await desk.destroy_groups()
    await finish_head(desk, held, how)
    (again,) = await desk.claim("bob", 9)
    assert (again.key, again.number) == ("z", 2)
    await desk.complete(again)
    assert await in_order(desk, 2, slots=9) == ["m", "a"]
    assert await desk.leftovers() == []
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_with_skip_those_behind_pass_a_job_that_rests_and_it_is_first_again_when_due(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", order_key="k")
    (first,) = await desk.claim("ann", 9)
    assert await desk.fail(first, attempts=9, seconds=HOUR, order="skip") == "retrying"
    (second,) = await desk.claim("ann", 9)
    assert second.key == "b"
    await desk.past_due("a")
    assert await desk.claim("bob", 9) == [], "one at a time, also then"
    await desk.complete(second)
    assert await in_order(desk, 3, slots=9) == ["a", "c", "d"]
    assert await desk.leftovers() == []


@pytest.mark.parametrize("state", ["waiting", "delayed", "resting"])
async def test_the_next_comes_when_the_head_is_cancelled(desk: Desk, state: str) -> None:
    await desk.submit("a", order_key="k", delay_seconds=HOUR if state == "delayed" else None)
    await desk.submit("b", "c", order_key="k")
    if state == "resting":
        (held,) = await desk.claim("ann", 9)
        await desk.fail(held, attempts=9, seconds=HOUR)
    if state != "waiting":
        assert await desk.claim("ann", 9) == []
    assert await desk.cancel("a") == "ok"
    assert await in_order(desk, 2, slots=9) == ["b", "c"]
    assert await desk.leftovers() == []


async def test_the_next_comes_when_the_head_expires_or_is_stopped_while_it_runs(desk: Desk) -> None:
    soon = datetime.fromtimestamp(time.time() - 1, UTC).isoformat()
    await desk.submit("a", order_key="k", expires_at=soon)
    await desk.submit("b", "c", order_key="k")
    (held,) = await desk.claim("ann", 9)
    assert held.key == "b"
    assert (await desk.record("a")).state is State.FAILED
    assert await desk.cancel("b") == "cancelling"
    assert await desk.claim("ann", 9) == []
    assert await desk.complete(held) == "cancelled"
    assert await in_order(desk, 1, slots=9) == ["c"]
    assert await desk.leftovers() == []


async def test_cancelling_one_in_the_middle_disturbs_nobody(desk: Desk) -> None:
    await desk.submit("a", "b", "c", order_key="k")
    (held,) = await desk.claim("ann", 9)
    assert await desk.cancel("b") == "ok"
    assert await desk.front() == [], "the one that runs is not called again"
    assert await desk.claim("ann", 9) == []
    await desk.complete(held)
    assert await in_order(desk, 1) == ["c"]


async def test_a_reopened_job_stands_behind_those_of_its_order(desk: Desk) -> None:
    await desk.submit("a", "b", order_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.fail(held)
    assert await desk.transitions.reopen(desk.keys, "a") == "ok"
    assert await in_order(desk, 2, slots=9) == ["b", "a"]
    assert await desk.leftovers() == []


async def test_a_blocked_order_key_holds_up_no_other_job_however_many_stand_before_it(desk: Desk) -> None:
    await desk.submit("head", order_key="k")
    (head,) = await desk.claim("ann")
    await desk.submit(*(f"behind-{n:04}" for n in range(500)), order_key="k")
    await desk.submit("other")
    waits = []
    for _ in range(20):  # a call reads some entries at most, and says to come again at once
        (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming("bob", desk.nonces("bob", 1))])
        if claims := to_claims(answer):
            break
        waits.append(answer[0])
    assert set(waits) == {b"0"}
    assert len(waits) > 3
    assert [held.key for held in claims] == ["other"]
    assert await desk.claim("bob", 5) == []
    await desk.complete(head)
    assert await in_order(desk, 50, slots=5) == [f"behind-{n:04}" for n in range(50)]
    for n in range(50, 2000):
        await desk.cancel(f"behind-{n:04}")
    assert await desk.leftovers() == []


async def test_a_first_job_goes_before_the_share_of_a_lower_band(desk: Desk) -> None:
    await flood(desk, 20, ["urgent", "low"])
    await in_order(desk, 9)
    await desk.submit("first", band="normal", first=True)
    assert await in_order(desk, 2) == ["first", "low-000"]


async def test_a_name_at_the_front_of_a_priority_without_a_line_breaks_no_claim(desk: Desk) -> None:
    await desk.submit("a", "b")
    await desk.store.command("ZADD", desk.keys.front("urgent"), 1, "unknown", 2, "b")
    assert await in_order(desk, 2) == ["a", "b"]
    assert await desk.front() == []


async def test_a_first_job_that_is_cancelled_leaves_nothing_behind(desk: Desk) -> None:
    await desk.submit("first", band="low", first=True)
    assert await desk.cancel("first") == "ok"
    assert await desk.leftovers() == []


async def test_a_first_job_keeps_its_place_when_one_of_its_order_ends(desk: Desk) -> None:
    await desk.submit("head", order_key="k")
    (head,) = await desk.claim("ann", 1)
    await desk.submit("back")
    await desk.submit("released")
    back = (await desk.claim("ann", 1))[0]
    await desk.submit("next", first=True, order_key="k")
    await desk.release(back)  # at the front, too, and accepted before
    await desk.complete(head)
    assert await in_order(desk, 3) == ["next", "back", "released"]
