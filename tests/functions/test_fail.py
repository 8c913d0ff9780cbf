"""fail: one end with one error, and nothing left in line."""

from streams.states import State
from streams.transitions import Again
from tests.support.builders import NOBODY, Desk, error_of, forget_scripts, untouched


async def test_a_failed_job_has_its_error_and_leaves_the_line(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.fail(held, "no such page") == "ok"
    assert await desk.story("a") == ["queued", "started 1", "failed 1"]
    error = (await desk.history("a"))[-1].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "no such page")
    assert (await desk.record("a")).state is State.FAILED
    assert (await desk.line(), await desk.pending(), (await desk.look()).leases) == ([], [], ())
    assert await desk.store.command("ZRANGE", desk.keys["ended_failed"], 0, -1) == [b"a"]


async def test_a_repeated_failure_changes_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, "first")
    async with untouched(desk.store):
        assert await desk.fail(held, "second") == "again"


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


async def test_a_completed_job_does_not_fail_afterwards(desk: Desk) -> None:
    held = await desk.start()
    await desk.complete(held)
    async with untouched(desk.store):
        assert await desk.fail(held) == "lost"


async def test_a_freed_slot_rings_the_bell(shop: Desk) -> None:
    held = await shop.start()
    rung = await shop.bell()
    await shop.fail(held)
    assert await shop.bell() != rung


async def test_a_job_fails_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.fail(held) == "ok"
