"""unschedule: no tick comes any more, and a pause keeps the definition."""

import pytest

from tailrace.streams.schedules import mark_of
from tailrace.streams.store.connection import Store
from tests.functions.schedules import ONE, OTHER, kept
from tests.support.builders import Desk, forget_scripts, untouched


async def test_a_removed_schedule_leaves_no_key(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    assert await desk.transitions.unschedule(desk.keys, "n") == "ok"
    assert await desk.store.command("DBSIZE") == 0
    assert await desk.transitions.unschedule(desk.keys, "n") == "missing"


async def test_a_paused_schedule_keeps_its_definition_and_has_no_tick(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    assert await desk.transitions.unschedule(desk.keys, "n", mark_of(ONE), OTHER) == "ok"
    assert await kept(desk) == (OTHER, None)
    async with untouched(desk.store):
        assert await desk.transitions.unschedule(desk.keys, "n", mark_of(ONE), OTHER) == "ok", "the same call again"


async def test_a_pause_does_not_undo_what_somebody_else_wrote_meanwhile(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", OTHER, 5000)
    async with untouched(desk.store):
        assert await desk.transitions.unschedule(desk.keys, "n", mark_of(ONE), b"{}") == "changed"


async def test_other_schedules_go_on(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    await desk.transitions.schedule(desk.keys, "m", "", ONE, 5000)
    await desk.transitions.unschedule(desk.keys, "m")
    assert await kept(desk) == (ONE, b"5000")


async def test_a_tick_without_a_definition_is_tidied_up(desk: Desk) -> None:
    await desk.store.command("ZADD", desk.keys["ticks"], 5000, "n")
    assert await desk.transitions.unschedule(desk.keys, "n") == "missing"
    assert await desk.store.command("DBSIZE") == 0


@pytest.mark.usefixtures("single_server")
async def test_a_schedule_is_paused_and_removed_while_the_store_is_full(store: Store, desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    await store.command("SET", "filler", b"x" * 2_000_000)
    await store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        assert await desk.transitions.unschedule(desk.keys, "n", mark_of(ONE), OTHER) == "ok"
        assert await desk.transitions.unschedule(desk.keys, "n") == "ok"
    finally:
        await store.command("CONFIG", "SET", "maxmemory", "0")


async def test_a_schedule_is_removed_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.transitions.schedule(desk.keys, "n", "", ONE, 5000)
    await forget_scripts(desk.store)
    assert await desk.transitions.unschedule(desk.keys, "n") == "ok"
