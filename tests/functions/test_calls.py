"""Idle consumers: each claim that finds too little lists its owner, and work calls one of them for each job."""

import time

import pytest

from tailrace.streams.replies import to_claims
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched

HOUR = 3600.0


async def wake(desk: Desk) -> None:
    await desk.transitions.wake([(desk.keys, desk.policy)])


async def told(desk: Desk, owner: str, slots: int = 1) -> int | None:
    """After how many milliseconds a claim that brings nothing says to look again."""
    (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming(owner, desk.nonces(owner, slots))])
    assert to_claims(answer) == []
    return int(answer[0]) if answer[0] else None


async def age_calls(desk: Desk, seconds: float = -1.0) -> None:
    """As if all that were called had been called a second ago."""
    for owner in await desk.called():
        await desk.store.command("ZINCRBY", desk.keys["called"], seconds * 1e6, owner)


async def alarm_rings(desk: Desk) -> None:
    """As if the time at which the platform opens had come."""
    assert await desk.store.command("ZADD", desk.keys["alarms"], "XX", "CH", 1, "~") == 1


async def lose_twice(desk: Desk, *keys: str) -> None:
    """Bring jobs to their last chance."""
    await desk.submit(*keys)
    for _ in range(2):
        for held in await desk.claim("gone", slots=len(keys)):
            assert await desk.reclaim(held) == "reclaimed"


async def test_a_claim_that_finds_too_little_lists_its_owner(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    await desk.claim("ann", slots=2)
    assert await desk.idle() == []
    await desk.claim("bob", slots=2)
    await desk.claim("cid")
    assert await desk.idle() == ["bob", "cid"]
    await desk.claim("bob", slots=2)
    assert await desk.idle() == ["cid", "bob"], "the one that has waited longest is first"


async def test_each_job_calls_one_idle_consumer(desk: Desk) -> None:
    await desk.asleep("ann", "bob", "cid", "dan")
    await desk.submit("a")
    assert (await desk.called(), await desk.idle()) == (["ann"], ["bob", "cid", "dan"])
    await desk.submit("b", "c")
    assert (await desk.called(), await desk.idle()) == (["ann", "bob", "cid"], ["dan"])
    assert [await desk.rings(owner) for owner in ("ann", "bob", "cid", "dan")] == [1, 1, 1, 0]


async def test_a_job_that_is_taken_away_does_not_call_the_consumer_that_lost_it(desk: Desk) -> None:
    await desk.submit("a")
    (held,) = await desk.claim("dead", slots=2)
    assert await desk.idle() == ["dead"]
    assert await desk.reclaim(held) == "reclaimed"
    assert (await desk.called(), await desk.idle()) == ([], [])


async def test_a_bell_that_is_never_heard_goes_away(desk: Desk) -> None:
    await desk.asleep("ann")
    await desk.submit("a")
    assert 0 < await desk.store.command("PTTL", desk.keys.bell("ann")) <= 60_000


async def test_a_consumer_that_claims_is_not_called_any_more(desk: Desk) -> None:
    await desk.asleep("ann")
    await desk.submit("a")
    assert [held.key for held in await desk.claim("ann")] == ["a"]
    assert (await desk.called(), await desk.idle()) == ([], [])


async def test_a_large_submit_calls_a_bounded_number_and_each_that_fills_up_calls_the_next(desk: Desk) -> None:
    await desk.asleep(*(f"idle-{number:02}" for number in range(20)))
    await desk.submit(*(f"job-{number}" for number in range(30)))
    assert (len(await desk.called()), len(await desk.idle())) == (16, 4)
    await desk.claim("idle-00")
    assert (len(await desk.called()), len(await desk.idle())) == (16, 3)


async def test_a_full_consumer_that_leaves_nothing_calls_no_other(desk: Desk) -> None:
    await desk.submit("a")
    held = (await desk.claim("ann"))[0]
    await desk.submit("b")
    await desk.asleep("zoe")
    batch = [desk.completing(held), desk.claiming("ann", desk.nonces("ann", 1))]
    await desk.transitions.commit(desk.keys, batch)
    assert await desk.called() == []


async def test_a_full_consumer_calls_no_other_where_no_other_may_start(shop: Desk) -> None:
    await shop.submit("a", "b")
    await shop.asleep("zoe")
    await shop.claim("ann")
    assert await shop.called() == []


async def test_a_call_is_passed_on_by_a_claim_for_no_slots(desk: Desk) -> None:
    await desk.asleep("ann", "bob")
    await desk.submit("a")
    await desk.claim("ann", slots=0)
    assert (await desk.called(), await desk.idle()) == (["bob"], [])


async def test_a_consumer_that_leaves_is_not_called(desk: Desk) -> None:
    await desk.claim("ann")
    await desk.claim("ann", slots=0)
    async with untouched(desk.store):
        await desk.claim("ann", slots=0)
    await desk.submit("a")
    assert (await desk.called(), await desk.idle()) == ([], [])


async def test_others_are_called_when_one_does_not_come(desk: Desk) -> None:
    await desk.asleep("dead", "bob")
    await desk.submit("a")
    async with untouched(desk.store):
        await wake(desk)
    await age_calls(desk)
    await wake(desk)
    assert await desk.called() == ["bob"]
    await desk.claim("bob")
    async with untouched(desk.store):
        await wake(desk)


async def test_those_that_claimed_last_are_called_first_when_one_does_not_come(desk: Desk) -> None:
    """Of a host that died many consumers are idle for longer than any that lives."""
    await desk.asleep(*(f"dead-{number}" for number in range(40)), "zoe")
    await desk.submit("a")
    assert await desk.called() == ["dead-0"]
    await age_calls(desk)
    await wake(desk)
    assert "zoe" in await desk.called()


async def test_others_are_called_although_the_clock_was_set_back(desk: Desk) -> None:
    await desk.asleep("dead", "bob")
    await desk.submit("a")
    await age_calls(desk, HOUR)
    await wake(desk)
    assert await desk.called() == ["bob"]


async def test_others_are_called_when_one_that_was_to_come_again_at_once_does_not(store: Store) -> None:
    desk = Desk(store)
    await desk.submit("head", order_key="k")
    await desk.claim("ann")
    await desk.submit(*(f"behind-{n}" for n in range(40)), order_key="k")
    await desk.submit("other")
    assert await told(desk, "dead") == 0
    assert await desk.called() == ["dead"]
    await desk.asleep("bob")
    await age_calls(desk)
    await wake(desk)
    assert await desk.called() == ["bob"]
    assert [held.key for held in await desk.claim("bob")] == ["other"]


@pytest.mark.parametrize("known_by", ["one that sleeps", "one that is full", "none"])
async def test_the_rate_of_a_platform_stands_among_the_alarms(store: Store, known_by: str) -> None:
    """The consumer that finds the rate closed may die: every heart calls another when it opens."""
    desk = Desk(store, max_running=0 if known_by == "one that is full" else 1, rate=1, rate_seconds=60)
    await desk.submit("a", "b")
    await desk.asleep("zoe")
    (held,) = await desk.claim("ann")
    if known_by != "one that is full":
        nonces = desk.nonces("ann", int(known_by == "one that sleeps"))
        await desk.transitions.commit(desk.keys, [desk.completing(held), desk.claiming("ann", nonces)])
    if known_by == "none":
        assert await desk.called() == ["zoe"]
        assert await told(desk, "zoe")
    await desk.store.command("ZREM", desk.keys["idle"], "ann")
    await desk.asleep("zoe")
    await desk.store.command("DEL", desk.keys["called"])
    await alarm_rings(desk)
    await wake(desk)
    assert await desk.called() == ["zoe"]


async def test_a_closed_rate_sets_no_alarm_while_nothing_waits(store: Store) -> None:
    desk = Desk(store, rate=1, rate_seconds=60)
    await desk.submit("a")
    await desk.claim("ann", slots=2)
    assert await told(desk, "ann") is None
    assert await desk.store.command("EXISTS", desk.keys["alarms"]) == 0


async def test_the_end_of_a_hold_is_an_alarm_too(desk: Desk) -> None:
    """Also when the job that met the limit is cancelled meanwhile."""
    held = await desk.start("a")
    await desk.submit("b")
    await desk.delay(held, HOUR, hold=True)
    assert await told(desk, "ann")
    await desk.cancel("a")
    await desk.store.command("DEL", desk.keys["called"])
    await desk.asleep("zoe")
    await alarm_rings(desk)
    await desk.store.command("HDEL", desk.keys["control"], "held_until_ms")
    await wake(desk)
    assert "zoe" in await desk.called()


async def test_one_idle_consumer_keeps_the_time(desk: Desk) -> None:
    await desk.submit("later", delay_seconds=HOUR)
    assert await told(desk, "ann")
    assert await told(desk, "bob") is None, "ann looks at that time"
    assert await told(desk, "ann")
    await desk.submit("sooner", delay_seconds=60)
    assert await desk.called() == ["bob"]
    assert 0 < (await told(desk, "bob") or 0) <= 60_000
    assert await told(desk, "ann") is None


async def test_a_consumer_that_keeps_the_time_and_fills_up_has_another_keep_it(desk: Desk) -> None:
    await desk.submit("later", delay_seconds=HOUR)
    assert await told(desk, "ann")
    await desk.submit("now")
    await desk.asleep("bob")
    assert [held.key for held in await desk.claim("ann")] == ["now"]
    assert await desk.called() == ["bob"]
    assert await told(desk, "bob")


async def test_a_time_that_passed_is_kept_by_no_one(desk: Desk) -> None:
    await desk.submit("later", delay_seconds=HOUR)
    await desk.store.command("HSET", desk.keys["control"], "timekeeper", f"{int(time.time() * 1000) - 1} gone")
    assert await told(desk, "ann")


async def test_nothing_is_left_of_a_time_that_no_job_waits_for(desk: Desk) -> None:
    await desk.submit("later", delay_seconds=HOUR)
    assert await told(desk, "ann")
    await desk.cancel("later")
    assert await told(desk, "ann") is None
    assert await desk.store.command("HGET", desk.keys["control"], "timekeeper") is None


async def test_a_call_to_a_consumer_that_is_buried_goes_to_another(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.asleep("ann", "bob")
    await desk.submit("a")
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
    assert (await desk.called(), await desk.idle()) == (["bob"], [])
    assert await desk.rings("ann") == 0


async def test_the_time_that_a_buried_consumer_kept_is_kept_by_another(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.submit("later", delay_seconds=HOUR)
    assert await told(desk, "ann")
    await desk.asleep("bob")
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
    assert (await desk.called(), await desk.idle()) == (["bob"], [])
    assert await told(desk, "bob")


async def test_a_job_that_one_consumer_may_not_take_calls_those_that_have_not_looked(desk: Desk) -> None:
    """On its last chance a job runs alone in its process."""
    await lose_twice(desk, "suspect")
    await desk.asleep("ann", "bob")
    await desk.submit("new")
    assert await desk.called() == ["ann"]
    desk.company = "some"
    assert await desk.claim("ann", slots=3) == []
    assert await desk.called() == ["bob"], "it may take the one that ann left"
    desk.company = "locked"
    assert [held.key for held in await desk.claim("bob")] == ["suspect"]


async def test_consumers_that_may_not_take_a_job_do_not_call_each_other_in_turn(desk: Desk) -> None:
    await lose_twice(desk, "one", "two", "three")
    for owner in ("ann", "bob"):
        assert len(await desk.claim(owner, slots=2)) == 1
    await desk.store.command("DEL", desk.keys["idle"], desk.keys["called"])
    await desk.asleep("ann", "bob")
    await desk.submit("new")
    calls = 0
    while called := await desk.called():
        calls += 1
        assert calls < 9
        await desk.claim(called[0], slots=2)
    assert calls == 2
