"""pause: no more jobs of a platform start; what runs goes on."""

from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, forget_scripts, untouched


async def test_a_paused_platform_starts_nothing_and_what_runs_goes_on(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    assert await desk.transitions.pause(desk.keys, "ann") == "ok"
    assert await desk.claim("bob", 9) == []
    assert await desk.report(held, 1) == "shown"
    assert await desk.complete(held) == "ok"
    assert (await desk.record("b")).state is State.WAITING


async def test_a_second_pause_changes_nothing(desk: Desk) -> None:
    await desk.transitions.pause(desk.keys, "ann")
    async with untouched(desk.store):
        assert await desk.transitions.pause(desk.keys, "bob") == "again"


async def test_whoever_waits_at_a_paused_platform_is_not_told_to_come_again(desk: Desk) -> None:
    await desk.submit("a")
    await desk.transitions.pause(desk.keys, "ann")
    (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming("bob", desk.nonces("bob", 1))])
    assert (to_claims(answer), answer[0]) == ([], b"")


async def test_other_platforms_go_on(desk: Desk, shop: Desk) -> None:
    await shop.submit("a")
    await desk.transitions.pause(desk.keys, "ann")
    assert [held.key for held in await shop.claim()] == ["a"]


async def test_jobs_are_accepted_released_and_cancelled_meanwhile(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.transitions.pause(desk.keys, "")
    assert await desk.submit("b", "c") == [["accepted", "waiting"]] * 2
    assert await desk.release(held) == "ok"
    assert await desk.cancel("b") == "ok"
    assert await desk.claim("bob", 9) == []
    await desk.transitions.resume(desk.keys)
    assert [again.key for again in await desk.claim("bob", 9)] == ["a", "c"]


async def test_a_claim_whose_answer_was_lost_is_answered_although_the_platform_is_paused(desk: Desk) -> None:
    await desk.submit("a")
    nonces = desk.nonces("ann", 1)
    await desk.claim_as("ann", nonces)
    await desk.transitions.pause(desk.keys, "ann")
    assert [held.key for held in await desk.claim_as("ann", nonces)] == ["a"]


async def test_a_platform_is_paused_after_the_server_forgot_the_script(store: Store, desk: Desk) -> None:
    await forget_scripts(store)
    assert await desk.transitions.pause(desk.keys, "ann") == "ok"
