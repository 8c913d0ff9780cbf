"""Why a job waits, where hundreds run, everybody asks, or somebody spoilt the line."""

import asyncio
import time
from typing import Any

import pytest

from streams import lookout as lookout_module
from streams.connection import Store
from streams.lookout import Lookout
from streams.policies import Platforms
from streams.presence import Presence
from streams.waiting import Reason
from tests.functions.test_lookout import served, words
from tests.support.builders import Desk


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("limits", "l", "many"),
        ("limits", "l", "1.5"),
        ("control", "held_until_ms", "inf"),
        ("control", "held_until_ms", "soon"),
        ("control", "held_until_ms", "1e300"),
        ("control", "held_until_ms", "9999999999999999"),
        ("orders", "o", "\udcff"),
    ],
)
async def test_numbers_that_are_none_hide_no_job(desk: Desk, store: Store, name: str, field: str, value: str) -> None:
    await desk.submit("a", limit_key="l", order_key="o")
    await store.command("HSET", desk.keys[name], field, value.encode(errors="surrogateescape"))
    platforms = Platforms({"shop": desk.policy})
    lookout = Lookout(store, desk.transitions, platforms, Presence(desk.transitions, platforms))
    assert await lookout.explain(desk.keys, await desk.record("a"), None, []) is None


async def test_a_count_that_was_spoilt_still_has_a_reason(store: Store) -> None:
    desk = Desk(store, key_overall=1)
    why = await served(desk)
    await store.command("HSET", desk.keys["limits"], "l", 1)
    await desk.submit("a", limit_key="l")
    assert (await desk.claim()) == []
    waiting = await why("a")
    assert words(waiting) == ["limit"]
    assert waiting.expected_start is None


async def test_all_that_run_are_counted_and_a_few_named(store: Store) -> None:
    desk = Desk(store, overall=300)
    why = await served(desk)
    await desk.submit(*(f"j{number}" for number in range(300)))
    await desk.claim("ann", 300)
    await desk.submit("a")
    (reason,) = (await why("a")).reasons
    assert reason.detail.startswith("shop runs 300 jobs at a time, and shop.j")
    assert reason.detail.endswith(" and 297 more are running.")


async def test_leases_that_nobody_can_read_take_room_too(store: Store) -> None:
    desk = Desk(store, overall=1)
    why = await served(desk)
    await store.command("HSET", desk.keys["leases"], "n", "nonsense")
    await desk.submit("a")
    (reason,) = (await why("a")).reasons
    assert reason == Reason("busy", "shop runs 1 job at a time, and that many are running.")


async def test_many_that_run_make_a_line_long_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout_module, "KEPT_SECONDS", 60.0)
    why = await served(desk)
    await desk.submit(*(f"j{number}" for number in range(150)))
    await desk.claim("ann", 150)
    await desk.submit("a")
    looks = counted_looks(desk, monkeypatch)
    for _ in range(5):
        await why("a")
    assert len(looks) == 1


async def test_however_many_ask_looks_take_a_small_part_of_the_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = await served(desk)
    await desk.submit("a")
    looks = counted_looks(desk, monkeypatch, slow=0.05)
    begun = time.monotonic()
    while time.monotonic() - begun < 1.0:
        await why("a")
    assert 4 <= len(looks) <= 8, "a few at once, until they have taken the part of five seconds; then one a second"
    monkeypatch.setattr(lookout_module, "OLDEST_SECONDS", 0.1)
    await asyncio.sleep(0.15)  # then what was seen is too old, whatever a look takes
    before = len(looks)
    await why("a")
    assert len(looks) == before + 1


def counted_looks(desk: Desk, monkeypatch: pytest.MonkeyPatch, slow: float = 0.0) -> list[None]:
    """Has an entry for each look that there will be."""
    looks: list[None] = []
    look = desk.transitions.line

    async def counting(*args: Any) -> object:
        looks.append(None)
        await asyncio.sleep(slow)  # as a long line would
        return await look(*args)

    monkeypatch.setattr(desk.transitions, "line", counting)
    return looks
