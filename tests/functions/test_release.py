"""release: a job is handed back at no cost and goes first."""

import time

from tailrace.streams.keys import FRONT
from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched


async def test_a_released_job_waits_at_the_front_at_no_cost(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    assert await desk.release(held) == "ok"
    record = await desk.record("a")
    assert (record.state, record.crashes, record.attempt) == (State.WAITING, 0, 1)
    assert await desk.front() == ["a"]
    assert await desk.pending() == [(record.entry, FRONT)]
    assert (await desk.look()).leases == ()
    last = (await desk.history("a"))[-1]
    assert (last.status, last.attempt, last.workerId, last.reason) == ("superseded", 1, "ann", "released")


async def test_a_released_job_keeps_its_args_and_is_run_again(desk: Desk) -> None:
    await desk.submit("a", args=b'{"steps":7}')
    (held,) = await desk.claim()
    await desk.release(held)
    (again,) = await desk.claim("bob")
    assert (again.key, again.number, again.args) == ("a", 2, b'{"steps":7}')
    assert await desk.front() == []
    assert await desk.complete(again) == "ok"
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_released_jobs_go_first_in_the_order_they_were_accepted(desk: Desk) -> None:
    keys = [f"job-{number}" for number in (3, 1, 2, 9, 8)]
    await desk.submit(*keys, "newer")
    for held in reversed(await desk.claim(slots=5)):
        await desk.release(held)
    assert [held.key for held in await desk.claim(slots=6)] == [*keys, "newer"]


async def test_a_repeated_release_changes_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.release(held)
    async with untouched(desk.store):
        assert await desk.release(held) == "again"


async def test_a_late_release_does_not_disturb_the_next_attempt(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.release(old)
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await desk.release(old) == "lost"
    assert await desk.complete(new) == "ok"
    async with untouched(desk.store):
        assert await desk.release(new) == "lost"


async def test_a_stranger_releases_nothing(desk: Desk) -> None:
    held = await desk.start()
    async with untouched(desk.store):
        assert await desk.transitions.release(desk.keys, "a", NOBODY, 100) == "lost"
        assert await desk.transitions.release(desk.keys, "unknown", held.nonce, 100) == "lost"


async def test_an_attempt_that_was_taken_over_releases_nothing(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await desk.release(old) == "lost"
    await desk.claim("bob")
    async with untouched(desk.store):
        assert await desk.release(old) == "lost"


async def test_a_job_whose_group_was_destroyed_comes_again_from_the_line(desk: Desk) -> None:
    held = await desk.start()
    await desk.destroy_groups()
    assert await desk.release(held) == "ok"
    assert await desk.front() == []
    (again,) = await desk.claim("bob")
    assert (again.key, again.number) == ("a", 2)


async def test_a_neighbours_entry_is_left_alone_when_ones_own_is_gone(desk: Desk) -> None:
    """It is held again, and only it."""
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", slots=2)
    mine, neighbours = (await desk.record("a")).entry, (await desk.record("b")).entry
    await desk.store.command("XACK", desk.keys.jobs("normal"), "consumers", mine)
    await desk.release(first)
    assert await desk.pending() == [(mine, "front"), (neighbours, "ann")]
    assert await desk.complete(second) == "ok"


async def test_a_release_calls_an_idle_consumer(desk: Desk) -> None:
    held = await desk.start()
    await desk.asleep("zoe")
    await desk.release(held)
    assert await desk.called() == ["zoe"]


async def test_a_job_is_released_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.release(held) == "ok"


async def test_a_lease_whose_job_is_gone_is_given_up(shop: Desk) -> None:
    held = await shop.start()
    await shop.store.command("DEL", shop.keys.record(held.key))
    assert await shop.release(held) == "lost"
    assert (await shop.look()).leases == ()


async def test_jobs_keep_their_order_while_the_clock_is_behind_their_entries(desk: Desk) -> None:
    """The server counts up the second part of entry ids then, for as long as the clock was set back."""
    await desk.store.command(
        "XADD", desk.keys["jobs_normal"], f"{round(time.time() * 1000) + 3_600_000}-5000", "id", "x"
    )
    await desk.submit("b", "a")
    for held in await desk.claim(slots=3):
        await desk.release(held)
    assert [held.key for held in await desk.claim(slots=3)] == ["b", "a"]
