"""holdings: some of the jobs that one owner runs, found without a look at those of others."""

from tests.support.builders import Desk, forget_scripts, untouched


async def held_by(desk: Desk, owner: str, most: int = 100) -> list[str]:
    return sorted(lease.key for lease in await desk.transitions.holdings(desk.keys, owner, most))


async def test_an_owner_holds_what_it_claimed_and_did_not_settle(desk: Desk) -> None:
    await desk.submit(*"abcdefg")
    a, b, c, d, e, _ = await desk.claim("ann", slots=6)
    await desk.claim("bob")
    assert await held_by(desk, "ann") == list("abcdef")
    await desk.complete(a)
    await desk.fail(b)
    await desk.delay(c, 60)
    await desk.release(d)
    await desk.reclaim(e)
    assert await held_by(desk, "ann") == ["f"]
    assert await held_by(desk, "bob") == ["g"]


async def test_the_list_of_an_owner_that_holds_nothing_is_gone(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    assert await desk.store.command("SMEMBERS", desk.keys.holds("ann")) == [held.nonce.encode()]
    await desk.complete(held)
    assert not await desk.store.command("EXISTS", desk.keys.holds("ann"))


async def test_one_batch_moves_jobs_from_and_to_the_list(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    a, b = await desk.claim("ann", slots=2)
    nonces = desk.nonces("ann", 1)
    await desk.transitions.commit(desk.keys, [desk.completing(a), desk.releasing(b), desk.claiming("ann", nonces)])
    assert await held_by(desk, "ann") == ["b"]  # a released job goes first


async def test_an_unheard_claim_is_held_once(desk: Desk) -> None:
    await desk.submit("a", "b")
    nonces = desk.nonces("ann", 1)
    for _ in range(2):
        await desk.claim_as("ann", nonces)
    assert await held_by(desk, "ann") == ["a"]


async def test_a_look_shows_no_more_than_it_is_asked_for_and_leaves_no_trace(desk: Desk) -> None:
    await desk.submit(*(f"job-{number}" for number in range(30)))
    await desk.claim("ann", slots=30)
    async with untouched(desk.store):
        assert len(set(await held_by(desk, "ann", most=7))) == 7


async def test_a_lease_that_was_removed_by_hand_leaves_the_list(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.store.command("HDEL", desk.keys["leases"], held.nonce)
    assert await held_by(desk, "ann") == []
    assert not await desk.store.command("EXISTS", desk.keys.holds("ann"))


async def test_a_lease_whose_job_is_unknown_leaves_the_list(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.store.command("DEL", desk.keys.record("a"))
    assert await desk.reclaim(held) == "gone"
    assert await held_by(desk, "ann") == []


async def test_an_owner_is_asked_for_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.start("a", "ann")
    await forget_scripts(desk.store)
    assert await held_by(desk, "ann") == ["a"]
