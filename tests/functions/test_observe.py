"""observe: which consumers beat, seen without a trace."""

import pytest

from tailrace.streams.messages import Lease
from tailrace.streams.operations import BrokenOperation
from tests.support.builders import Desk, Look, untouched


async def test_an_observer_sees_beats_and_leases(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.beat("ann", [held])
    await desk.beat("bob")
    entry = (await desk.record("a")).entry
    lease = Lease(held.nonce, "a", "normal", entry, "ann", 10.0)
    assert await desk.look() == Look({"ann": "1", "bob": "1"}, (lease,))


async def test_an_empty_platform_shows_nothing(desk: Desk) -> None:
    assert await desk.look() == Look({}, ())


async def test_one_look_covers_several_platforms(desk: Desk, shop: Desk) -> None:
    await desk.beat("ann")
    await shop.start("b", "bob")
    assert await desk.transitions.observe([shop.keys, desk.keys]) == [{"bob": "0"}, {"ann": "1"}]


async def test_an_owner_is_seen_from_its_first_claim_on(desk: Desk) -> None:
    """A lease whose owner no observer watches would never count as lost."""
    await desk.claim("bob")
    await desk.start("a", "ann")
    assert (await desk.look()).beats == {"ann": "0"}


async def test_looking_leaves_no_trace(desk: Desk) -> None:
    await desk.start()
    await desk.beat("ann")
    async with untouched(desk.store):
        await desk.look()


async def test_a_lease_is_seen_until_its_attempt_is_over(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d")
    first, second, third, fourth = await desk.claim(slots=4)
    await desk.complete(first)
    await desk.fail(second)
    await desk.release(third)
    assert [lease.key for lease in (await desk.look()).leases] == ["d"]
    await desk.reclaim(fourth)
    assert (await desk.look()).leases == ()


async def test_a_corrupt_platform_says_so(desk: Desk) -> None:
    await desk.store.command("SET", desk.keys["beats"], "corrupt")
    with pytest.raises(BrokenOperation, match="WRONGTYPE"):
        await desk.transitions.observe([desk.keys])
