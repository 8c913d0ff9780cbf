"""complete: one end with one result, and nothing left in line."""

import pytest

from tailrace.streams.operations import BrokenOperation
from tailrace.streams.options import Dedupe
from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched


async def test_a_completed_job_has_its_result_and_leaves_the_line(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.complete(held, {"sum": 3}) == "ok"
    assert await desk.story("a") == ["queued", "started 1", "completed 1"]
    assert (await desk.history("a"))[-1].result == {"sum": 3}
    record = await desk.record("a")
    assert record.state is State.COMPLETED
    assert record.ended_ms is not None
    assert (await desk.line(), await desk.pending(), (await desk.look()).leases) == ([], [], ())
    assert await desk.store.command("LRANGE", desk.keys["ended_completed"], 0, -1) == [b"a"]


async def test_a_repeated_completion_changes_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.complete(held, "first")
    async with untouched(desk.store):
        assert await desk.complete(held, "second") == "again"
    assert (await desk.history("a"))[-1].result == "first"


async def test_a_stranger_completes_nothing(desk: Desk) -> None:
    held = await desk.start()
    event = desk.end_event(held, result="stolen")
    async with untouched(desk.store):
        assert await desk.transitions.complete(desk.keys, "a", NOBODY, event) == "lost"
        assert await desk.transitions.complete(desk.keys, "a", "", event) == "lost"
        assert await desk.transitions.complete(desk.keys, "unknown", held.nonce, event) == "lost"


async def test_a_lease_that_outlived_its_job_lets_it_end_once(desk: Desk) -> None:
    held = await desk.start()
    lease = await desk.store.command("HGET", desk.keys["leases"], held.nonce)
    await desk.complete(held, "first")
    await desk.store.command("HSET", desk.keys["leases"], held.nonce, lease)  # as a restored backup would
    assert await desk.complete(held, "second") == "lost"
    assert await desk.fail(held) == "lost"
    assert await desk.story("a") == ["queued", "started 1", "completed 1"]
    assert (await desk.look()).leases == ()


async def test_an_attempt_that_was_taken_over_completes_nothing(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await desk.complete(old, "old") == "lost"
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await desk.complete(old, "old") == "lost"
    await desk.complete(new, "new")
    async with untouched(desk.store):
        assert await desk.complete(old, "old") == "lost"
    assert (await desk.history("a"))[-1].result == "new"


async def test_a_job_that_failed_or_went_back_is_not_completed(desk: Desk) -> None:
    await desk.submit("a", "b")
    failed, released = await desk.claim(slots=2)
    await desk.fail(failed)
    await desk.release(released)
    async with untouched(desk.store):
        assert await desk.complete(failed) == "lost"
        assert await desk.complete(released) == "lost"


async def test_a_silent_owner_that_nobody_reclaimed_may_still_complete(desk: Desk) -> None:
    """Its beats may have failed for longer than the deadline: as long as nobody took the job, the work counts."""
    held = await desk.start("a", "ann")
    assert (await desk.look()).beats == {"ann": "0"}
    assert await desk.complete(held) == "ok"


async def test_a_freed_slot_calls_an_idle_consumer(shop: Desk) -> None:
    held = await shop.start()
    await shop.asleep("zoe")
    await shop.complete(held)
    assert await shop.called() == ["zoe"]


async def test_a_job_is_completed_although_its_group_was_destroyed(desk: Desk) -> None:
    held = await desk.start()
    await desk.destroy_groups()
    assert await desk.complete(held) == "ok"
    assert await desk.line() == []
    assert await desk.claim() == []


async def test_a_corrupt_log_refuses_the_end_without_a_trace(desk: Desk) -> None:
    held = await desk.start()
    await desk.store.command("DEL", desk.keys.log("a"))
    await desk.store.command("SET", desk.keys.log("a"), "corrupt")
    async with untouched(desk.store):
        for end in (desk.complete, desk.fail, desk.release, desk.reclaim):
            with pytest.raises(BrokenOperation, match="WRONGTYPE"):
                await end(held)


async def test_a_job_is_completed_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.complete(held) == "ok"


async def test_a_corrupt_job_next_in_its_order_does_not_disturb_an_end(desk: Desk) -> None:
    await desk.submit("a", "b", order_key="o")
    (held,) = await desk.claim()
    await desk.store.command("DEL", desk.keys.record("b"))
    await desk.store.command("SET", desk.keys.record("b"), "corrupt")
    assert await desk.complete(held) == "ok"
    assert (await desk.look()).leases == ()


async def test_a_lease_that_outlived_its_job_gives_it_no_second_end(desk: Desk) -> None:
    """As after an error in the middle of an end: the job has ended, and its lease is still there."""
    await desk.submit("a", dedupe=Dedupe("d"))
    (held,) = await desk.claim()
    await desk.store.command("DEL", "tr:{shop}:dedupe:d")
    await desk.store.command("LPUSH", "tr:{shop}:dedupe:d", "corrupt")
    with pytest.raises(BrokenOperation):
        await desk.complete(held)
    assert (await desk.record("a")).state is State.COMPLETED
    assert await desk.release(held) == "lost"
    assert (await desk.story("a"))[-1] == "completed 1"
    assert (await desk.look()).leases == ()
