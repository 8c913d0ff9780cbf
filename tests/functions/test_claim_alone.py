"""claim: a job on its last chance runs alone in its process, so that only its own doing ends it."""

from typing import Any

import pytest

from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tests.functions.last_chances import ask, lose_twice
from tests.functions.why import served
from tests.support.builders import Desk

HOUR_MS = 3_600_000


async def test_it_is_given_alone_to_a_process_that_runs_nothing_else(desk: Desk) -> None:
    await lose_twice(desk, "suspect", "other")
    await desk.submit("fresh")
    assert await ask(desk, "ann", 9, "locked") == ("alone", ["suspect"])
    assert await ask(desk, "bob", 9, "locked") == ("alone", ["other"])
    assert await ask(desk, "cid", 9, "locked") == ("", ["fresh"])
    assert await desk.leftovers() == []


async def test_a_fresh_killer_beside_it_does_not_end_it(desk: Desk) -> None:
    """It is never handed to a process that runs others, and a loss beside others does not count as its own."""
    await desk.submit("innocent")
    for _ in range(3):
        desk.company = "some"
        claims = await desk.claim("ann")
        if not claims:
            break
        assert await desk.reclaim(claims[0]) == "reclaimed"
    assert (await desk.record("innocent")).crashes == 2
    await desk.submit("killer")
    assert await ask(desk, "ann", 9, "some") == ("empty", [])
    desk.company = "locked"
    (held,) = await desk.claim("ann", 9)
    assert held.key == "innocent"
    assert await desk.complete(held) == "ok"


async def test_a_loss_beside_others_brings_it_back_and_a_loss_alone_ends_it(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.store.command(
        "HSET", desk.keys.record("a"), "crashes", 2
    )  # as if its last chance had begun by other rules
    assert await desk.reclaim(held) == "reclaimed"
    (held,) = await desk.claim("bob")
    assert await desk.reclaim(held) == "failed"
    last = (await desk.history("a"))[-1]
    assert last.error is not None
    assert last.error.type == "WorkerLost"


@pytest.mark.parametrize("how", ["release", "delay", "fail"])
async def test_it_stays_on_its_last_chance_when_it_was_put_off(desk: Desk, how: str) -> None:
    await lose_twice(desk, "suspect")
    (held,) = await desk.claim()
    puts_off: dict[str, Any] = {
        "release": lambda: desk.release(held),
        "delay": lambda: desk.delay(held, 0),
        "fail": lambda: desk.fail(held, attempts=9),
    }
    await puts_off[how]()
    if how != "release":
        assert await ask(desk, "bob", 9, "none") == ("", []), "it is found out when it comes to its turn"
    assert await ask(desk, "bob", 9, "none") == ("empty", [])
    assert await ask(desk, "bob", 9, "locked") == ("alone", ["suspect"])


async def test_while_all_are_busy_exactly_one_takes_nothing_more(desk: Desk) -> None:
    for owner in ("ann", "bob"):
        await desk.beat(owner)
    await lose_twice(desk, "suspect")
    await desk.submit("a", "b", "c")
    assert await ask(desk, "ann", 1, "some") == ("empty", [])
    assert await ask(desk, "bob", 1, "some") == ("", ["a"])
    assert await ask(desk, "ann", 1, "some") == ("empty", [])
    assert await ask(desk, "ann", 1, "locked") == ("alone", ["suspect"])
    assert await ask(desk, "ann", 1, "some") == ("", ["b"])


async def test_a_process_that_runs_nothing_takes_the_place_of_one_that_empties(desk: Desk) -> None:
    for owner in ("ann", "bob"):
        await desk.beat(owner)
    await lose_twice(desk, "suspect")
    assert await ask(desk, "ann", 1, "some") == ("empty", [])
    assert await ask(desk, "bob", 1, "none") == ("empty", [])
    assert await ask(desk, "ann", 1, "some") == ("", []), "another takes it"
    assert await ask(desk, "bob", 1, "locked") == ("alone", ["suspect"])


async def test_when_the_one_that_empties_dies_another_does(desk: Desk) -> None:
    await desk.beat("ann")
    await lose_twice(desk, "suspect")
    assert await ask(desk, "ann", 1, "some") == ("empty", [])
    await desk.submit("a")
    assert await desk.transitions.bury(desk.keys, "ann", "1") == "buried"
    assert await ask(desk, "bob", 1, "some") == ("empty", [])


async def test_a_process_that_does_not_become_empty_within_a_minute_goes_on(desk: Desk) -> None:
    await desk.beat("ann")
    await lose_twice(desk, "suspect")
    assert await ask(desk, "ann", 1, "some") == ("empty", [])
    await desk.submit("a", "b")
    reserved = (await desk.store.command("HGET", desk.keys["control"], "reserved")).decode().split()
    await desk.store.command("HSET", desk.keys["control"], "reserved", f"{int(reserved[0]) - 61_000} ann")
    assert await ask(desk, "ann", 1, "some") == ("", ["a"])
    await desk.store.command("HSET", desk.keys["control"], "reserved", f"{int(reserved[0]) - HOUR_MS} ann")
    assert await ask(desk, "ann", 1, "some") == ("empty", []), "and tries again later"


async def test_any_number_of_them_hides_no_job_behind_them(desk: Desk) -> None:
    suspects = [f"suspect-{number:03}" for number in range(150)]
    await lose_twice(desk, *suspects)
    await desk.beat("zoe")
    await desk.store.command("HSET", desk.keys["control"], "reserved", f"{await now_ms(desk)} zoe")
    await desk.submit("released")
    desk.company = "some"
    claims: list[Claim] = []
    for _ in range(9):
        claims = claims or await desk.claim("ann")
    assert [held.key for held in claims] == ["released"]
    await desk.release(claims[0])
    assert [held.key for held in await desk.claim("bob")] == ["released"]


async def now_ms(desk: Desk) -> int:
    seconds, micros = await desk.store.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_one_that_is_cancelled_leaves_nothing_behind(desk: Desk) -> None:
    await lose_twice(desk, "suspect")
    await ask(desk, "ann", 1, "some")
    assert await desk.cancel("suspect") == "ok"
    assert (await desk.record("suspect")).state is State.CANCELLED
    assert await desk.leftovers() == []
    assert await ask(desk, "ann", 1, "some") == ("", [])


async def test_why_it_waits_says_so(desk: Desk) -> None:
    await lose_twice(desk, "suspect")
    (reason,) = (await (await served(desk))("suspect")).reasons
    told = "It lost 2 workers: on its last chance it waits for a consumer process that runs nothing else."
    assert (reason.reason, reason.detail) == ("suspect", told)


async def test_it_stays_alone_when_its_claim_is_repeated(desk: Desk) -> None:
    await lose_twice(desk, "suspect")
    await desk.submit("fresh")
    claiming = desk.claiming("ann", desk.nonces("ann", 9))
    (first,) = await desk.transitions.commit(desk.keys, [claiming])
    (again,) = await desk.transitions.commit(desk.keys, [claiming])
    assert (again[1], [held.key for held in to_claims(again)]) == (b"alone", ["suspect"])
    assert to_claims(again)[0].nonce == to_claims(first)[0].nonce


async def test_a_repeated_claim_that_gave_another_job_does_not_bring_it(desk: Desk) -> None:
    await desk.submit("fresh")
    claiming = desk.claiming("ann", desk.nonces("ann", 9))
    await desk.transitions.commit(desk.keys, [claiming])
    await lose_twice(desk, "suspect")
    (again,) = await desk.transitions.commit(desk.keys, [claiming])
    assert (again[1], [held.key for held in to_claims(again)]) == (b"empty", ["fresh"])
