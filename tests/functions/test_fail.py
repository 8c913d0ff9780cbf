"""fail: an attempt raised; the job is tried again later, or has one end with one error and nothing left in line."""

import pytest

from tailrace.streams.operations import Again
from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, error_of, forget_scripts, untouched

HOUR = 3600.0


async def test_the_last_failure_ends_the_job_with_its_error(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.fail(held, "no such page") == "failed"
    assert await desk.story("a") == ["queued", "started 1", "failed 1"]
    error = (await desk.history("a"))[-1].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "no such page")
    assert (await desk.record("a")).state is State.FAILED
    assert (await desk.line(), await desk.pending(), (await desk.look()).leases) == ([], [], ())
    assert await desk.store.command("ZRANGE", desk.keys["ended_failed"], 0, -1) == [b"a"]


async def test_a_failure_that_is_not_the_last_puts_the_job_to_rest(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.fail(held, "no such page", attempts=3, seconds=HOUR) == "retrying"
    record = await desk.record("a")
    assert (record.state, record.failures, record.crashes) == (State.DELAYED, 1, 0)
    assert await desk.store.command("ZRANGE", desk.keys["due"], 0, -1) == [b"a"]
    assert (await desk.look()).leases == ()
    assert [owner for _, owner in await desk.pending()] == ["front"]
    assert await desk.claim() == []


async def test_the_event_tells_the_error_and_when_the_job_is_tried_again(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, "no such page", attempts=3, seconds=90.5)
    last = (await desk.history("a"))[-1]
    assert (last.status, last.attempt, last.workerId) == ("retrying", 1, "ann")
    assert last.error is not None
    assert (last.error.type, last.error.message) == ("ValueError", "no such page")
    due = (await desk.store.command("ZSCORE", desk.keys["due"], "a")).decode()
    written = int(last.id.partition("-")[2][:13])
    assert int(due) == written + 90_500
    assert last.retryAt is not None
    assert last.retryAt.endswith(f".{due[-3:]}Z")


async def test_each_failure_is_counted_and_the_last_allowed_one_ends_the_job(desk: Desk) -> None:
    await desk.submit("a")
    for word in ("retrying", "retrying", "failed"):
        (held,) = await desk.claim()
        assert await desk.fail(held, attempts=3) == word
    assert await desk.story("a") == [
        *("queued", "started 1", "retrying 1", "started 2", "retrying 2", "started 3", "failed 3"),
    ]
    assert (await desk.record("a")).failures == 3


async def test_a_claim_tells_how_often_its_job_failed_before(desk: Desk) -> None:
    held = await desk.start()
    assert held.failures == 0
    await desk.fail(held, attempts=5)
    (held,) = await desk.claim()
    assert held.failures == 1
    await desk.release(held)
    (held,) = await desk.claim()
    assert (held.number, held.failures) == (3, 1)


async def test_a_job_that_was_started_too_often_is_not_tried_again(desk: Desk) -> None:
    held = await desk.start()
    again = Again(0, 3, 1)
    assert await desk.transitions.fail(desk.keys, "a", held.nonce, again, error_of("m")) == "failed"


async def test_a_job_that_was_asked_to_stop_ends_cancelled_by_a_failure(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a", b',"by":"ops","reason":"not needed"')
    assert await desk.fail(held, attempts=3) == "cancelled"
    assert await desk.story("a") == ["queued", "started 1", "cancelling 1", "cancelled 1"]
    last = (await desk.history("a"))[-1]
    assert (last.by, last.reason, last.error) == ("ops", "not needed", None)


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 0.0), (3, HOUR)])
async def test_a_repeated_failure_changes_nothing(desk: Desk, attempts: int, seconds: float) -> None:
    held = await desk.start()
    await desk.fail(held, "first", attempts=attempts, seconds=seconds)
    async with untouched(desk.store):
        assert await desk.fail(held, "second", attempts=attempts, seconds=seconds) == "again"


async def test_a_stranger_fails_nothing(desk: Desk) -> None:
    held = await desk.start()
    again, error = Again(0, 0, 100), error_of("m")
    async with untouched(desk.store):
        assert await desk.transitions.fail(desk.keys, "a", NOBODY, again, error) == "lost"
        assert await desk.transitions.fail(desk.keys, "unknown", held.nonce, again, error) == "lost"


async def test_an_attempt_that_was_taken_over_fails_nothing(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.reclaim(old)
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await desk.fail(old) == "lost"
    await desk.complete(new)
    async with untouched(desk.store):
        assert await desk.fail(old) == "lost"


async def test_an_attempt_is_over_once_it_has_failed(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, attempts=3, seconds=HOUR)
    async with untouched(desk.store):
        assert await desk.report(held, 1) == "lost"
        assert await desk.complete(held) == "lost"
        assert await desk.release(held) == "lost"
        assert await desk.reclaim(held) == "gone"


async def test_a_completed_job_does_not_fail_afterwards(desk: Desk) -> None:
    held = await desk.start()
    await desk.complete(held)
    async with untouched(desk.store):
        assert await desk.fail(held) == "lost"


@pytest.mark.parametrize("attempts", [0, 3])
async def test_a_freed_slot_calls_an_idle_consumer(shop: Desk, attempts: int) -> None:
    held = await shop.start()
    await shop.asleep("zoe")
    await shop.fail(held, attempts=attempts, seconds=HOUR)
    assert await shop.called() == ["zoe"]


async def test_a_job_rests_although_its_group_was_destroyed(desk: Desk) -> None:
    held = await desk.start()
    await desk.destroy_groups()
    assert await desk.fail(held, attempts=3, seconds=HOUR) == "retrying"
    assert await desk.claim() == []
    await desk.store.command("ZADD", desk.keys["due"], 0, "a")
    (again,) = await desk.claim()
    assert (again.key, again.number) == ("a", 2)


async def test_a_job_fails_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.fail(held) == "failed"
