"""schedule: a definition is kept with its next tick, and nobody overwrites what they have not read."""

import pytest

from tailrace.streams.errors import StoreFull
from tailrace.streams.schedules import mark_of
from tailrace.streams.store.connection import Store
from tests.functions.schedules import ONE, OTHER, kept
from tests.support.builders import Desk, forget_scripts, untouched


async def test_a_new_schedule_is_kept_with_its_tick(desk: Desk) -> None:
    assert await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000) == "ok"
    assert await kept(desk) == (ONE, b"5000")


async def test_the_same_call_again_changes_nothing(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    async with untouched(desk.store):
        assert await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000) == "again"
        assert await desk.transitions.schedule(desk.keys, "n", mark_of(ONE), ONE, 9000, keep=True) == "again"


async def test_a_changed_schedule_keeps_its_tick_only_when_asked_to(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    assert await desk.transitions.schedule(desk.keys, "n", mark_of(ONE), OTHER, 9000, keep=True) == "ok"
    assert await kept(desk) == (OTHER, b"5000")
    assert await desk.transitions.schedule(desk.keys, "n", mark_of(OTHER), ONE, 9000) == "ok"
    assert await kept(desk) == (ONE, b"9000")


async def test_a_tick_that_went_missing_comes_back(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    await desk.store.command("DEL", desk.keys["ticks"])
    assert await desk.transitions.schedule(desk.keys, "n", mark_of(ONE), ONE, 9000, keep=True) == "ok"
    assert await kept(desk) == (ONE, b"9000")


async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    async with untouched(desk.store):
        for before in ("", mark_of(OTHER)):
            assert await desk.transitions.schedule(desk.keys, "n", before, OTHER, 9000) == "changed"


async def test_a_schedule_may_begin_paused(desk: Desk) -> None:
    assert await desk.transitions.schedule(desk.keys, "n", "", ONE, None) == "ok"
    assert await kept(desk) == (ONE, None)


@pytest.mark.usefixtures("single_server")
async def test_a_full_store_takes_no_new_schedule(store: Store, desk: Desk) -> None:
    await store.command("SET", "filler", b"x" * 2_000_000)
    await store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        with pytest.raises(StoreFull):
            await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    finally:
        await store.command("CONFIG", "SET", "maxmemory", "0")


async def test_a_schedule_is_kept_after_the_server_forgot_the_script(desk: Desk) -> None:
    await forget_scripts(desk.store)
    assert await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000) == "ok"
