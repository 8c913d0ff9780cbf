"""line: where a job stands, and that claims take those before it first."""

from random import Random
from typing import Any

import pytest

from tailrace.streams.keys import BANDS
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.store.connection import Store
from tailrace.streams.waiting.position import Line, Place
from tests.support.builders import Desk, untouched

HOUR = 3600.0


async def look(desk: Desk, key: str) -> Line:
    return await desk.transitions.line(desk.keys, key, desk.policy)


async def place_of(desk: Desk, key: str) -> Place | None:
    return (await look(desk, key)).place


async def before(desk: Desk, key: str) -> int | None:
    place = await place_of(desk, key)
    assert place is None or place.exact
    return None if place is None else place.before


async def test_the_front_of_a_priority_stands_before_its_line_and_every_higher_one_before_both(desk: Desk) -> None:
    held = await desk.start("released")
    for band in reversed(BANDS):
        await desk.submit(f"{band}-1", f"{band}-2", band=band)
    await desk.submit("pushed", band="low", first=True)
    await desk.release(held)
    expected = ["pushed", "urgent-1", "urgent-2", "high-1", "high-2", "released", "normal-1", "normal-2", "low-1"]
    assert [await before(desk, key) for key in expected] == list(range(9))
    assert await place_of(desk, "normal-1") == Place(6, True, "released")
    assert await place_of(desk, "normal-2") == Place(7, True, "normal-1")
    assert await place_of(desk, "low-1") == Place(8, True, None), "the last before it is of another priority"


async def test_what_rests_or_has_ended_is_not_counted(desk: Desk) -> None:
    await desk.submit("a", "gone")
    await desk.submit("later", delay_seconds=HOUR)
    await desk.submit("b")
    await desk.cancel("gone")
    assert await place_of(desk, "b") == Place(1, True, None)
    await desk.past_due("later")
    assert await before(desk, "later") == 0, "its time has come: it goes to the front with the next claim"


async def test_looking_changes_nothing(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1, key_rate=5, rate=3)
    await desk.submit("a", "b", "c", limit_key="l", order_key="o")
    await desk.submit("d", delay_seconds=HOUR)
    await desk.claim("ann", 3)
    async with untouched(store):
        for key in "abcd":
            await look(desk, key)


async def test_in_a_long_line_both_ends_are_counted_and_the_middle_is_at_least_so_far_behind(desk: Desk) -> None:
    await desk.submit(*(f"j{number}" for number in range(1500)))
    await desk.claim("ann", 10)
    assert await place_of(desk, "j109") == Place(99, True, "j108")
    assert await place_of(desk, "j1450") == Place(1440, True, None)
    assert await place_of(desk, "j700") == Place(100, False, None)


async def test_one_that_was_called_before_it_was_handed_out_comes_in_its_turn(desk: Desk) -> None:
    await desk.submit("a", order_key="o")
    (held,) = await desk.claim()
    await desk.submit("j0", "j1")
    await desk.submit("b", order_key="o")
    await desk.complete(held)
    assert await desk.front() == ["b"]
    assert [claim.key for claim in await desk.claim("ann", 2)] == ["j0", "j1"]


async def test_one_that_waits_beside_the_line_has_no_place(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", "b", "c", limit_key="l")
    assert await before(desk, "b") == 1, "nobody has looked at it yet"
    await desk.claim("ann", 9)
    line = await look(desk, "c")
    assert (line.place, line.limit_full, line.limit_before) == (None, True, 1)


async def test_an_order_tells_its_head_and_which_of_it_runs(desk: Desk) -> None:
    await desk.submit("a", "b", order_key="o")
    line = await look(desk, "b")
    assert (line.order_before, line.order_runs) == ("a", False)
    await desk.claim("ann", 9)
    line = await look(desk, "b")
    assert (line.order_before, line.order_runs) == ("a", True)


async def test_a_destroyed_group_begins_at_the_head_again(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    await desk.destroy_groups()
    assert await before(desk, "c") == 2


async def test_a_corrupt_key_is_an_error_of_its_own(desk: Desk, store: Store) -> None:
    await desk.submit("a")
    await store.command("SET", desk.keys.front("normal"), "x")
    with pytest.raises(BrokenOperation):
        await look(desk, "a")


async def test_of_hundreds_that_run_all_are_counted_and_some_named(desk: Desk) -> None:
    await desk.submit(*(f"j{number}" for number in range(450)), "a")
    await desk.claim("ann", 450)
    line = await look(desk, "a")
    assert line.runs == 450
    assert 50 < len(line.running) <= 100
    assert len({job.key for job in line.running}) == len(line.running)


def some_options(dice: Random) -> dict[str, Any]:
    options: dict[str, Any] = {"band": dice.choice(BANDS)}
    if dice.random() < 0.1:
        options["first"] = True
    elif dice.random() < 0.2:
        options["delay_seconds"] = HOUR
    return options


async def set_the_scene(desk: Desk, dice: Random) -> int:
    """Some jobs everywhere a job may stand; how many there are."""
    count = dice.randrange(2, 30)
    held = []
    for number in range(count):
        await desk.submit(f"j{number}", **some_options(dice))
        chance = dice.random()
        if chance < 0.4:
            held += await desk.claim()
        elif chance < 0.7 and held:
            how = dice.choice([desk.complete, desk.release, desk.reclaim])
            await how(held.pop(dice.randrange(len(held))))
        elif chance < 0.8:
            await desk.cancel(f"j{dice.randrange(number + 1)}")
    return count


async def test_claims_start_jobs_in_the_order_of_their_places(store: Store, dice: Random) -> None:
    for _ in range(20):
        for node in await store.nodes():
            await node.command("FLUSHALL")
        desk = Desk(store, share=0, max_crashes=99)
        count = await set_the_scene(desk, dice)
        waiting = [key for key in (f"j{n}" for n in range(count)) if (await desk.record(key)).state == "waiting"]
        places = {key: await before(desk, key) for key in waiting}
        assert [claim.key for claim in await desk.claim("bob", 99)] == sorted(waiting, key=lambda key: places[key] or 0)
        assert sorted(place for place in places.values() if place is not None) == list(range(len(waiting)))
