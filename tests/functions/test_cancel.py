"""cancel: a job that nobody runs ends at once."""

from streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched


async def test_a_waiting_job_is_cancelled_and_leaves_the_line(desk: Desk) -> None:
    await desk.submit("a", "b")
    assert await desk.cancel("a") == "ok"
    assert (await desk.record("a")).state is State.CANCELLED
    assert await desk.story("a") == ["queued", "cancelled"]
    assert await desk.store.command("ZRANGE", desk.keys["ended_cancelled"], 0, -1) == [b"a"]
    assert [held.key for held in await desk.claim(slots=2)] == ["b"]


async def test_a_cancelled_job_may_say_why(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a", b',"reason":"asked by an operator"')
    assert (await desk.history("a"))[-1].reason == "asked by an operator"


async def test_a_job_at_the_front_is_cancelled_too(desk: Desk) -> None:
    held = await desk.start()
    await desk.release(held)
    assert await desk.cancel("a") == "ok"
    assert (await desk.front(), await desk.line(), await desk.pending()) == ([], [], [])
    assert (await desk.story("a"))[-1] == "cancelled 1"
    async with untouched(desk.store):
        assert await desk.release(held) == "lost"
        assert await desk.complete(held) == "lost"


async def test_a_repeated_cancel_changes_nothing(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await desk.cancel("a") == "again"


async def test_a_running_job_is_not_cancelled_this_way(desk: Desk) -> None:
    await desk.start()
    async with untouched(desk.store):
        assert await desk.cancel("a") == "running"


async def test_an_ended_job_stays_as_it_ended(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim(slots=2)
    await desk.complete(first)
    await desk.fail(second)
    async with untouched(desk.store):
        assert await desk.cancel("a") == "ended"
        assert await desk.cancel("b") == "ended"


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
