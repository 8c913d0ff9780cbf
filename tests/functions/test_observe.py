"""observe: who beats and who runs what, seen without a trace."""

from streams.messages import Lease, Look
from tests.support.builders import Desk, forget_scripts, untouched


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
    await desk.start("a", "ann")
    await shop.start("b", "bob")
    looks = await desk.transitions.observe([shop.keys, desk.keys])
    assert [[lease.owner for lease in look.leases] for look in looks] == [["bob"], ["ann"]]


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


async def test_an_observer_sees_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.start()
    await forget_scripts(desk.store)
    assert len((await desk.look()).leases) == 1
