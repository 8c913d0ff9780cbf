"""resume: the jobs of a paused platform start again."""

from tests.support.builders import Desk, forget_scripts, untouched


async def test_what_waited_starts_in_its_order_and_an_idle_consumer_is_called(desk: Desk) -> None:
    await desk.submit("a", "b")
    await desk.transitions.pause(desk.keys, "ann")
    assert await desk.claim() == []
    assert await desk.transitions.resume(desk.keys) == "ok"
    assert await desk.called() == ["ann"]
    assert [held.key for held in await desk.claim(slots=2)] == ["a", "b"]


async def test_resuming_what_is_not_paused_wakes_nobody(desk: Desk) -> None:
    await desk.submit("a")
    async with untouched(desk.store):
        assert await desk.transitions.resume(desk.keys) == "again"


async def test_a_hold_is_lifted_with_or_without_a_pause(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    first, second, _ = await desk.claim(slots=3)
    await desk.submit("d", "e")
    await desk.delay(first, 3600, hold=True)
    assert await desk.claim() == []
    assert await desk.transitions.resume(desk.keys) == "ok"
    assert [held.key for held in await desk.claim()] == ["d"]
    await desk.delay(second, 3600, hold=True)
    await desk.transitions.pause(desk.keys, "ann")
    assert await desk.transitions.resume(desk.keys) == "ok"
    assert [held.key for held in await desk.claim()] == ["e"]


async def test_a_platform_is_resumed_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.transitions.pause(desk.keys, "ann")
    await forget_scripts(desk.store)
    assert await desk.transitions.resume(desk.keys) == "ok"
