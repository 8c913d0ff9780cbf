"""cancel: a job that nobody runs ends at once; one that runs is asked to stop, and can only end cancelled."""

from collections.abc import Awaitable, Callable

import pytest

from tailrace.streams.messages import Claim
from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched

WHO = b',"by":"ops","reason":"not needed"'


async def test_a_waiting_job_is_cancelled_and_leaves_the_line(desk: Desk) -> None:
    await desk.submit("a", "b")
    assert await desk.cancel("a") == "ok"
    assert (await desk.record("a")).state is State.CANCELLED
    assert await desk.story("a") == ["queued", "cancelled"]
    assert await desk.store.command("ZRANGE", desk.keys["ended_cancelled"], 0, -1) == [b"a"]
    assert [held.key for held in await desk.claim(slots=2)] == ["b"]


async def test_a_cancelled_job_may_say_who_and_why(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a", WHO)
    last = (await desk.history("a"))[-1]
    assert (last.by, last.reason) == ("ops", "not needed")


async def test_a_job_at_the_front_is_cancelled_too(desk: Desk) -> None:
    held = await desk.start()
    await desk.release(held)
    assert await desk.cancel("a") == "ok"
    assert (await desk.front(), await desk.line(), await desk.pending()) == ([], [], [])
    assert (await desk.story("a"))[-1] == "cancelled 1"
    async with untouched(desk.store):
        assert await desk.release(held) == "lost"
        assert await desk.complete(held) == "lost"


async def test_a_delayed_job_is_cancelled_and_never_wakes(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=3600)
    assert await desk.cancel("a") == "ok"
    assert await desk.story("a") == ["queued", "delayed", "cancelled"]
    assert await desk.store.command("ZCARD", desk.keys["due"]) == 0
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_a_job_between_two_attempts_is_cancelled(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, attempts=3, seconds=3600)
    assert await desk.cancel("a") == "ok"
    assert await desk.story("a") == ["queued", "started 1", "retrying 1", "cancelled 1"]
    async with untouched(desk.store):
        assert await desk.fail(held, attempts=3, seconds=3600) == "lost"


async def test_a_repeated_cancel_changes_nothing(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await desk.cancel("a") == "again"


async def test_a_running_job_is_asked_to_stop_and_its_owner_hears_of_it(desk: Desk) -> None:
    held = await desk.start()
    assert (await desk.pulse("ann", [held])).stop == []
    assert await desk.cancel("a", WHO) == "cancelling"
    last = (await desk.history("a"))[-1]
    assert (last.status, last.attempt, last.by, last.reason) == ("cancelling", 1, "ops", "not needed")
    pulse = await desk.pulse("ann", [held])
    assert (pulse.stop, pulse.lost, pulse.stray) == ([held.nonce], [], [])
    assert (await desk.record("a")).state is State.RUNNING


async def test_an_attempt_that_is_asked_to_stop_shows_nothing_more(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await desk.report(held, 1) == "again"
        assert await desk.report(held, 2) == "cancelled"


async def test_a_second_request_to_stop_changes_nothing(desk: Desk) -> None:
    await desk.start()
    await desk.cancel("a", WHO)
    async with untouched(desk.store):
        assert await desk.cancel("a", b',"by":"somebody else"') == "cancelling"


END: dict[str, Callable[[Desk, Claim], Awaitable[str]]] = {
    "complete": lambda desk, held: desk.complete(held),
    "fail": lambda desk, held: desk.fail(held, attempts=3),
    "delay": lambda desk, held: desk.delay(held, 1),
    "release": lambda desk, held: desk.release(held),
    "reclaim": lambda desk, held: desk.reclaim(held),
}


@pytest.mark.parametrize("end", END)
async def test_however_its_attempt_ends_the_job_ends_cancelled(desk: Desk, end: str) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.cancel("a", WHO)
    assert await END[end](desk, held) == "cancelled"
    assert await desk.story("a") == ["queued", "started 1", "progress 1 step 1", "cancelling 1", "cancelled 1"]
    last = (await desk.history("a"))[-1]
    assert (last.by, last.reason, last.workerId) == ("ops", "not needed", "ann")
    assert (await desk.record("a")).state is State.CANCELLED
    assert (await desk.line(), await desk.pending(), (await desk.look()).leases) == ([], [], ())
    assert await desk.store.command("ZRANGE", desk.keys["ended_cancelled"], 0, -1) == [b"a"]
    async with untouched(desk.store):
        assert await desk.complete(held) == "lost"
        assert await desk.cancel("a") == "again"


async def test_the_next_attempt_of_another_job_is_not_asked_to_stop(desk: Desk) -> None:
    held = await desk.start("a")
    other = await desk.start("b")
    await desk.cancel("a")
    assert (await desk.pulse("ann", [held, other])).stop == [held.nonce]
    assert await desk.complete(other) == "ok"


async def test_an_ended_job_stays_as_it_ended(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim(slots=2)
    await desk.complete(first)
    await desk.fail(second)
    async with untouched(desk.store):
        assert await desk.cancel("a") == "completed"
        assert await desk.cancel("b") == "failed"


async def test_an_unknown_job_is_missing(desk: Desk) -> None:
    async with untouched(desk.store):
        assert await desk.cancel("a") == "missing"


async def test_a_job_is_cancelled_although_its_group_was_destroyed(desk: Desk) -> None:
    held = await desk.start()
    await desk.release(held)
    await desk.destroy_groups()
    assert await desk.cancel("a") == "ok"
    assert await desk.claim() == []


async def test_a_job_is_cancelled_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await forget_scripts(desk.store)
    assert await desk.cancel("a") == "ok"
