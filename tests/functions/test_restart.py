"""restart: every consumer of a platform hears that it is asked to leave."""

from tests.support.builders import Desk, forget_scripts


async def restart(desk: Desk, request: str) -> int | None:
    """Ask all consumers that are there."""
    return await desk.transitions.restart(desk.keys, request, (await desk.look()).beats)


async def test_each_request_is_counted_and_heard_with_the_next_beat(desk: Desk) -> None:
    assert (await desk.pulse("ann")).restarts == 0
    assert await restart(desk, "one") == 1
    assert await restart(desk, "two") == 2
    assert (await desk.pulse("ann")).restarts == 2
    assert (await desk.pulse("bob")).restarts == 2


async def test_a_request_whose_answer_was_lost_may_be_repeated(desk: Desk) -> None:
    for _ in range(3):
        assert await restart(desk, "one") == 1
        await forget_scripts(desk.store)
    assert (await desk.pulse("ann")).restarts == 1
    assert await restart(desk, "two") == 2
    assert await restart(desk, "two") == 2


async def test_a_name_that_is_used_for_ever_restarts_again_after_ten_minutes(desk: Desk) -> None:
    assert await restart(desk, "deploy") == 1
    for later, expected in ((590_000, 1), (11_000, 2), (0, 2), (-601_000, 3)):
        await desk.store.command("HINCRBY", desk.keys["control"], "restart_ms", -later)
        assert await restart(desk, "deploy") == expected
    await desk.store.command("HDEL", desk.keys["control"], "restart_ms")  # as an older version noted it
    assert await restart(desk, "deploy") == 4


async def test_another_platform_hears_nothing(desk: Desk, shop: Desk) -> None:
    await restart(desk, "one")
    assert (await shop.pulse("ann")).restarts == 0
    assert await restart(shop, "one") == 1


async def test_what_runs_goes_on(desk: Desk) -> None:
    held = await desk.start()
    await restart(desk, "one")
    assert await desk.report(held, 1) == "shown"
    assert await desk.complete(held) == "ok"


async def test_a_consumer_that_is_not_meant_keeps_all_from_being_asked(desk: Desk) -> None:
    await desk.pulse("ann")
    await desk.pulse("bob")
    for meant in (["ann"], [], ["ann", "bobby"]):
        assert await desk.transitions.restart(desk.keys, "one", meant) is None
    assert (await desk.pulse("ann")).restarts == 0
    assert await desk.transitions.restart(desk.keys, "one", ["ann", "bob", "gone"]) == 1
    assert (await desk.pulse("ann")).restarts == (await desk.pulse("bob")).restarts == 1
    await desk.start("a", "claimed-and-has-not-beaten")
    assert await desk.transitions.restart(desk.keys, "two", ["ann", "bob"]) == 2
    await desk.pulse("carl")
    assert await desk.transitions.restart(desk.keys, "two", []) == 2, "the same request again: its answer was lost"
