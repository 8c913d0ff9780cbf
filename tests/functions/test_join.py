"""join: an attempt sees what its children gave, and those that have not ended are wanted from then on."""

from tests.support.builders import NOBODY, Desk, forget_scripts, untouched
from tests.support.flowing import arrive, child_of, children, ended, join, spawn


async def test_a_page_tells_ends_in_the_order_asked_for(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c", child_of("kurly.d", child=False))
    await arrive(desk, "a", "kurly.c", ended([1]))
    page = await join(desk, held, "kurly.d", "kurly.c", "kurly.b", "kurly.x")
    assert page == ["?", ended([1]).decode(), "", "?"]
    record = await desk.record("a")
    assert (record.join, record.wanted) == ("1", 1)
    assert (await children(desk, "a"))["kurly.b"] == "!1"


async def test_a_repeated_page_counts_no_child_twice(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c")
    await join(desk, held, "kurly.b", "kurly.c")
    async with untouched(desk.store):
        assert await join(desk, held, "kurly.b", "kurly.c") == ["", ""]
    assert (await desk.record("a")).wanted == 2


async def test_another_join_counts_anew(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c")
    await join(desk, held, "kurly.b", "kurly.c", number="1-1")
    await join(desk, held, "kurly.b", number="1-2")
    record = await desk.record("a")
    assert (record.join, record.wanted) == ("1-2", 1)


async def test_a_large_page_is_told_in_parts(desk: Desk) -> None:
    held = await desk.start()
    ids = [f"kurly.c{number}" for number in range(8)]
    await spawn(desk, held, *ids)
    for child in ids:
        await arrive(desk, "a", child, ended("x" * 250_000))
    page = await join(desk, held, *ids)
    assert len(page) == 5
    assert len(await join(desk, held, *ids[5:])) == 3


async def test_only_the_current_attempt_joins(desk: Desk) -> None:
    old = await desk.start()
    await spawn(desk, old, "kurly.b")
    await desk.reclaim(old)
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        for nonce in (old.nonce, NOBODY, ""):
            assert await join(desk, old, "kurly.b", nonce=nonce) == "lost"
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await join(desk, new, "kurly.b") == "cancelled"


async def test_children_are_joined_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b")
    await forget_scripts(desk.store)
    assert await join(desk, held, "kurly.b") == [""]
