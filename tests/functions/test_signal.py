"""signal: what a job awaits under a name is kept once, and wakes a job that awaits it."""

import pytest

from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import signal, wait


async def test_a_job_that_awaits_it_goes_on_before_newer_ones(desk: Desk) -> None:
    held = await desk.start()
    await wait(desk, held, "signal", "~1", name="go", seconds=60)
    await desk.asleep("zoe")
    assert await signal(desk, "a", "go", b"1") == "delivered"
    record = await desk.record("a")
    assert (record.state, record.awaits, record.until_ms) == (State.WAITING, None, None)
    assert await desk.called() == ["zoe"]
    assert not await desk.store.command("EXISTS", desk.keys["awaiting"], desk.keys["alarms"])
    await desk.submit("z")
    assert [each.key for each in await desk.claim(slots=2)] == ["a", "z"]


async def test_another_signal_wakes_nobody(desk: Desk) -> None:
    held = await desk.start()
    await wait(desk, held, "signal", "~1", name="go")
    assert await signal(desk, "a", "stay") == "kept"
    assert (await desk.record("a")).state is State.AWAITING


async def test_the_first_one_counts(desk: Desk) -> None:
    held = await desk.start()
    await signal(desk, "a", "go", b"1")
    async with untouched(desk.store):
        assert await signal(desk, "a", "go", b"2") == "again"
    assert await wait(desk, held, "signal", "~1", name="go") == ["ready", "1"]


async def test_it_is_kept_for_a_job_that_has_not_started(desk: Desk) -> None:
    await desk.submit("a")
    assert await signal(desk, "a", "go") == "kept"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_a_job_that_has_ended_takes_none(desk: Desk, end: str) -> None:
    held = await desk.start()
    if end == "cancelled":
        await desk.cancel("a")
    await (desk.fail(held) if end == "failed" else desk.complete(held))
    async with untouched(desk.store):
        assert await signal(desk, "a", "go") == end
        assert await signal(desk, "nobody", "go") == "missing"


async def test_their_number_is_bounded(desk: Desk) -> None:
    await desk.submit("a")
    await signal(desk, "a", "one", most=1)
    async with untouched(desk.store):
        assert await signal(desk, "a", "two", most=1) == "full"
        assert await signal(desk, "a", "one", most=1) == "again"


async def test_a_job_that_is_removed_leaves_none(desk: Desk) -> None:
    held = await desk.start()
    await signal(desk, "a", "go")
    await desk.fail(held)
    await desk.transitions.drop(desk.keys, "a")
    assert not await desk.store.command("EXISTS", desk.keys.signals("a"))


async def test_a_signal_is_kept_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await forget_scripts(desk.store)
    assert await signal(desk, "a", "go") == "kept"
