"""tally: what waits on a platform, and what has ever ended there, by outcome."""

from tailrace.streams.keys import BANDS
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.transitions import Tally
from tailrace.streams.views.census import take_census
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import waiting_parent


async def counts(desk: Desk) -> tuple[int, int]:
    """How many wait, and how many have ended."""
    waiting, *ended, _ = await tally(desk)
    return waiting, sum(ended)


async def tally(desk: Desk) -> Tally:
    (found,) = await desk.transitions.tally([desk.keys])
    assert not isinstance(found, BrokenOperation)
    return found


async def test_an_unused_platform_has_nothing(desk: Desk) -> None:
    assert await counts(desk) == (0, 0)


async def test_jobs_of_every_band_wait_until_they_are_claimed(desk: Desk) -> None:
    for band in BANDS:
        await desk.submit(f"{band}-1", f"{band}-2", band=band)
    assert await counts(desk) == (8, 0)
    await desk.claim("ann", slots=3)
    assert await counts(desk) == (5, 0)


async def test_whatever_ends_a_job_counts_once_and_for_ever(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d")
    first, second, third = await desk.claim(slots=3)
    await desk.complete(first)
    await desk.fail(second)
    await desk.release(third)
    await desk.transitions.cancel(desk.keys, "d")
    assert await counts(desk) == (1, 3)
    assert await desk.transitions.drop(desk.keys, "b") == "ok"
    assert await counts(desk) == (1, 3)


async def test_ends_are_counted_by_outcome_and_for_ever(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", "e")
    first, second, third = await desk.claim(slots=3)
    await desk.complete(first)
    await desk.fail(second)
    await desk.transitions.cancel(desk.keys, "d")
    await desk.cancel(third.key)
    assert await desk.complete(third) == "cancelled"
    assert await tally(desk) == Tally(waiting=1, completed=1, failed=1, cancelled=2)
    assert await desk.transitions.drop(desk.keys, "b") == "ok"
    assert await tally(desk) == Tally(waiting=1, completed=1, failed=1, cancelled=2)


async def test_a_worker_lost_for_the_last_time_counts_as_a_failure(desk: Desk) -> None:
    held = await desk.start("a")
    for _ in range(2):
        await desk.reclaim(held)
        (held,) = await desk.claim()
    assert await desk.reclaim(held) == "failed"
    assert await tally(desk) == Tally(0, 0, failed=1, cancelled=0, lost=3)


async def test_another_life_has_another_end(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.fail(held)
    await desk.transitions.reopen(desk.keys, "a")
    assert await counts(desk) == (1, 1)
    (held,) = await desk.claim()
    await desk.complete(held)
    assert await counts(desk) == (0, 2)


async def test_one_call_counts_several_platforms_and_leaves_no_trace(desk: Desk, shop: Desk) -> None:
    await desk.submit("a")
    async with untouched(desk.store):
        assert await desk.transitions.tally([shop.keys, desk.keys]) == [Tally(0, 0, 0, 0), Tally(1, 0, 0, 0)]


async def test_a_corrupt_platform_hides_no_other(desk: Desk, shop: Desk) -> None:
    await desk.submit("a")
    await shop.store.command("SET", shop.keys["leases"], "corrupt")
    corrupt, found = await desk.transitions.tally([shop.keys, desk.keys])
    assert isinstance(corrupt, BrokenOperation)
    assert found == Tally(1, 0, 0, 0)


async def test_it_counts_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await forget_scripts(desk.store)
    assert await counts(desk) == (1, 0)


async def test_a_job_that_awaits_something_does_not_wait_in_line(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.c")
    await desk.submit("b")
    assert (await tally(desk)).waiting == 1
    assert (await take_census(desk.store, ["shop"])).waiting == {"shop": 1}
