"""bury: a silent consumer that holds nothing is forgotten."""

from tailrace.streams.keys import BANDS, GROUP
from tests.support.builders import Desk, forget_scripts, untouched


async def consumers(desk: Desk, band: str = "normal") -> list[str]:
    """The consumers that the group of a band knows."""
    found = await desk.store.command("XINFO", "CONSUMERS", desk.keys.jobs(band), GROUP)
    return sorted(consumer[1].decode() for consumer in found)


async def test_a_consumer_that_holds_nothing_is_forgotten(desk: Desk) -> None:
    for band in BANDS:
        await desk.submit(f"{band}-1", f"{band}-2", band=band)
    for held in await desk.claim("ann", slots=4):
        await desk.complete(held)
    await desk.claim("bob", slots=4)
    await desk.beat("ann")
    await desk.beat("bob")
    assert await consumers(desk, "urgent") == ["ann"]
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
    assert (await desk.look()).beats == {"bob": "1"}
    assert [await consumers(desk, band) for band in BANDS] == [[], [], ["bob"], ["bob"]]


async def test_what_it_told_of_itself_is_forgotten_with_it(desk: Desk) -> None:
    for owner in ("ann", "bob"):
        await desk.transitions.beat([(desk.keys, [])], owner, b"{}")
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
    assert await desk.store.command("HKEYS", desk.keys["consumers"]) == [b"bob"]


async def test_a_consumer_that_beat_since_is_not_forgotten(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.beat("ann")
    async with untouched(desk.store):
        assert await desk.transitions.bury(desk.keys, "ann", "1") == "alive"


async def test_a_consumer_that_holds_a_job_is_not_forgotten(desk: Desk) -> None:
    await desk.start("a", "ann")
    await desk.beat("ann")
    async with untouched(desk.store):
        assert await desk.transitions.bury(desk.keys, "ann", "1") == "holds"


async def test_a_repeated_burial_changes_nothing(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.transitions.bury(desk.keys, "ann", "1")
    async with untouched(desk.store):
        assert await desk.transitions.bury(desk.keys, "ann", "1") == "alive"
        assert await desk.transitions.bury(desk.keys, "ann", "") == "buried"


async def test_the_group_keeps_a_consumer_under_whose_name_entries_pend(desk: Desk) -> None:
    """Its entries would be dropped with it, also those that were put there by hand."""
    held = await desk.start("a", "ann")
    entry = (await desk.record("a")).entry
    await desk.store.command("XCLAIM", desk.keys.jobs("normal"), GROUP, "bob", 0, entry)
    await desk.beat("bob")
    assert await desk.transitions.bury(desk.keys, "bob", "1") == "buried"
    assert "bob" in await consumers(desk)
    await desk.release(held)
    assert [again.key for again in await desk.claim("ann")] == ["a"]


async def test_a_buried_consumer_that_lives_begins_anew(desk: Desk) -> None:
    await desk.beat("ann")
    await desk.transitions.bury(desk.keys, "ann", "1")
    await desk.beat("ann")
    await desk.start("a", "ann")
    assert (await desk.look()).beats == {"ann": "1"}


async def test_a_consumer_is_buried_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.beat("ann")
    await forget_scripts(desk.store)
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
