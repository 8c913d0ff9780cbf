"""Thousands of platforms where nothing happens: no script is called for them, and no call is for all of them."""

import pytest

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Policy
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.transitions import MOST_PLATFORMS, Forgotten, Transitions
from tailrace.streams.views.overview import take_overviews
from tests.support.builders import Desk

COUNT = 130
PLATFORMS = [PlatformKeys(f"p{number}") for number in range(COUNT)]
RULES = [(keys, Policy()) for keys in PLATFORMS]


async def scripts(store: Store) -> int:
    """How many scripts were called."""
    stats = info_fields(await store.command("INFO", "commandstats"))
    return sum(int(stats[name].partition("calls=")[2].partition(",")[0]) for name in stats if "eval" in name)


@pytest.mark.usefixtures("single_server")
async def test_platforms_where_nothing_happens_cost_no_script(store: Store) -> None:
    transitions = Transitions(store)
    await store.command("CONFIG", "RESETSTAT")
    await transitions.tend(RULES)
    assert await transitions.forget(RULES) == [Forgotten(0, False)] * COUNT
    assert await transitions.enlist([(keys, 0) for keys in PLATFORMS]) == [0] * COUNT
    assert [agenda.due for agenda in await transitions.agenda([(keys, 0) for keys in PLATFORMS])] == [[]] * COUNT  # type: ignore[union-attr]
    assert await scripts(store) == 0


async def test_a_platform_where_something_is_due_is_found_among_them(store: Store) -> None:
    transitions = Transitions(store)
    desk = Desk(store, "p77")
    await desk.submit("a", delay_seconds=3600)
    await desk.submit("b")
    await desk.past_due("a")
    await desk.complete((await desk.claim())[0])
    await transitions.tend(RULES)
    overviews = {each.platform: each for each in await take_overviews(store, [keys.platform for keys in PLATFORMS])}
    assert len(overviews) == COUNT
    assert (overviews["p77"].waiting, overviews["p77"].delayed, overviews["p77"].completed) == (1, 0, 1)
    assert overviews["p78"].waiting == 0


@pytest.mark.usefixtures("single_server")
async def test_a_beat_on_many_platforms_is_several_calls(store: Store) -> None:
    transitions = Transitions(store)
    await transitions.beat([(PLATFORMS[0], [])], "ann")  # the server knows the script
    await store.command("CONFIG", "RESETSTAT")
    assert len(await transitions.beat([(keys, []) for keys in PLATFORMS], "ann")) == COUNT
    assert await scripts(store) == -(-COUNT // MOST_PLATFORMS)
    assert (await transitions.observe(PLATFORMS))[1:] == [{"ann": "1"}] * (COUNT - 1)
