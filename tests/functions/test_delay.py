"""delay: an attempt puts its job off to a later time, and that is not a failure."""

from tailrace.streams.operations import Again
from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched

HOUR = 3600.0


async def test_a_delayed_job_rests_until_its_time_and_has_not_failed(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.delay(held, HOUR) == "ok"
    record = await desk.record("a")
    assert (record.state, record.failures, record.crashes) == (State.DELAYED, 0, 0)
    assert (await desk.look()).leases == ()
    assert await desk.claim() == []


async def test_the_event_tells_until_when(desk: Desk) -> None:
    held = await desk.start()
    await desk.delay(held, 90.5)
    last = (await desk.history("a"))[-1]
    assert (last.status, last.attempt, last.workerId, last.reason) == ("delayed", 1, "ann", None)
    due = (await desk.store.command("ZSCORE", desk.keys["due"], "a")).decode()
    assert int(due) == int(last.id.partition("-")[2][:13]) + 90_500
    assert last.until is not None
    assert last.until.endswith(f".{due[-3:]}Z")


async def test_a_job_whose_time_has_come_starts_again_before_newer_ones(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    await desk.delay(held, 0)
    assert [again.key for again in await desk.claim(slots=2)] == ["a", "b"]
    assert await desk.story("a") == ["queued", "started 1", "delayed 1", "started 2"]


async def test_a_platform_is_held_as_long_as_the_job_when_that_is_asked_for(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    assert await desk.delay(held, HOUR, hold=True) == "ok"
    assert await desk.claim() == []
    assert (await desk.history("a"))[-1].reason == "rate"
    await desk.store.command("HSET", desk.keys["control"], "held_until_ms", 1)
    assert [claim.key for claim in await desk.claim(slots=2)] == ["b"]


async def test_a_shorter_hold_does_not_end_a_longer_one(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim(slots=2)
    await desk.delay(first, HOUR, hold=True)
    await desk.delay(second, 0, hold=True)
    assert await desk.claim() == []


async def test_a_job_that_was_started_too_often_ends_failed(desk: Desk) -> None:
    held = await desk.start()
    word = await desk.transitions.delay(desk.keys, "a", held.nonce, Again(HOUR, 0, 1))
    assert word == "failed"
    last = (await desk.history("a"))[-1]
    assert last.error is not None
    assert (last.status, last.reason, last.error.type) == ("failed", "starts", "TooManyStarts")


async def test_a_job_that_was_asked_to_stop_ends_cancelled_instead(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a")
    assert await desk.delay(held, HOUR, hold=True) == "cancelled"
    assert await desk.story("a") == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    assert await desk.store.command("HGET", desk.keys["control"], "held_until_ms") is None


async def test_a_repeated_delay_changes_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.delay(held, HOUR)
    async with untouched(desk.store):
        assert await desk.delay(held, HOUR) == "again"


async def test_a_stranger_delays_nothing(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    async with untouched(desk.store):
        assert await desk.transitions.delay(desk.keys, "a", NOBODY, Again(1, 0, 100)) == "lost"
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await desk.delay(old, 1) == "lost"


async def test_an_idle_consumer_is_called_because_a_time_was_set(desk: Desk) -> None:
    held = await desk.start()
    await desk.asleep("zoe")
    await desk.delay(held, HOUR)
    assert await desk.called() == ["zoe"]


async def test_a_job_is_delayed_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.delay(held, 1) == "ok"


async def test_a_hold_without_a_time_holds_nothing(desk: Desk) -> None:
    await desk.submit("a")
    await desk.store.command("HSET", desk.keys["control"], "held_until_ms", "soon")
    assert [held.key for held in await desk.claim()] == ["a"]
