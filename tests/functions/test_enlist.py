"""enlist: leases that no owner's list names are found again, a page at a time."""

from tests.support.builders import Desk, forget_scripts, untouched


async def sweep(desk: Desk, most: int = 250) -> int:
    """A whole pass; how many calls it took."""
    cursor, calls = 0, 0
    while cursor or not calls:
        (cursor,) = await desk.transitions.enlist([(desk.keys, cursor)], most)
        calls += 1
    return calls


async def test_what_is_in_order_stays_as_it_is(desk: Desk) -> None:
    await desk.submit("a", "b")
    await desk.claim("ann")
    await desk.claim("bob")
    await desk.beat("ann")
    async with untouched(desk.store):
        await sweep(desk)


async def test_an_owner_is_watched_again_after_its_keys_were_removed_by_hand(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.store.command("DEL", desk.keys["beats"], desk.keys.holds("ann"))
    await sweep(desk)
    assert (await desk.look()).beats == {"ann": "0"}
    assert [lease.nonce for lease in await desk.transitions.holdings(desk.keys, "ann")] == [held.nonce]
    assert await desk.beat("ann") == ([], [("a", held.nonce)])


async def test_a_pass_covers_every_lease_in_several_calls(desk: Desk) -> None:
    keys = [f"job-{number:03}" for number in range(600)]
    await desk.submit(*keys)
    for owner in ("ann", "bob", "cid"):
        await desk.claim(owner, slots=200)
        await desk.store.command("DEL", desk.keys.holds(owner))
    assert await sweep(desk, most=50) > 3
    for owner in ("ann", "bob", "cid"):
        assert len(await desk.transitions.holdings(desk.keys, owner, 1000)) == 200


async def test_what_somebody_else_wrote_is_passed_over(desk: Desk) -> None:
    await desk.store.command("HSET", desk.keys["leases"], "strange", "by hand")
    async with untouched(desk.store):
        assert await desk.transitions.enlist([(desk.keys, 0)]) == [0]


async def test_leases_are_enlisted_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.start("a", "ann")
    await desk.store.command("DEL", desk.keys["beats"])
    await forget_scripts(desk.store)
    await sweep(desk)
    assert (await desk.look()).beats == {"ann": "0"}
