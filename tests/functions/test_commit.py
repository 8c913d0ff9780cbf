"""commit: what many attempts have to say is one call, and no part of it disturbs another."""

import asyncio
from typing import Any

import pytest

from tailrace.streams.functions import functions, script
from tailrace.streams.operations import call
from tailrace.streams.replies import to_claims
from tailrace.streams.store.commit import Committer
from tailrace.streams.transitions import Transitions
from tests.support.builders import Desk, ageless, forget_scripts
from tests.support.committing import committing


async def test_a_hundred_ends_and_the_next_claim_are_one_call(desk: Desk) -> None:
    keys = [f"job-{number}" for number in range(200)]
    await desk.submit(*keys)
    held = await desk.claim(slots=100)
    before = int((await calls(desk))["evalsha"])
    ends = [desk.completing(claim, index) for index, claim in enumerate(held)]
    *words, answer = await desk.transitions.commit(desk.keys, [*ends, desk.claiming("ann", desk.nonces("ann", 100))])
    assert int((await calls(desk))["evalsha"]) == before + 1
    assert words == [b"ok"] * 100
    assert [claim.key for claim in to_claims(answer)] == keys[100:]
    assert [(await desk.history(key))[-1].result for key in keys[:100]] == list(range(100))
    assert len(await desk.line()) == len(await desk.pending()) == len((await desk.look()).leases) == 100


async def calls(desk: Desk) -> dict[str, str]:
    """How often each command was called on this server."""
    lines = (await desk.store.command("INFO", "commandstats")).decode().splitlines()
    stats = dict(line.removeprefix("cmdstat_").split(":calls=") for line in lines if ":calls=" in line)
    return {name: value.partition(",")[0] for name, value in stats.items()}


async def test_what_one_attempt_says_is_heard_in_order(desk: Desk) -> None:
    held = await desk.start()
    batch = [desk.reporting(held, 1), desk.reporting(held, 2), desk.completing(held), desk.reporting(held, 3)]
    assert await desk.transitions.commit(desk.keys, batch) == [b"shown", b"shown", b"ok", b"lost"]
    assert await desk.story("a") == ["queued", "started 1", "progress 1 step 1", "progress 1 step 2", "completed 1"]


async def test_a_batch_repeated_as_a_whole_gets_the_same_facts(desk: Desk) -> None:
    held, other = await desk.start("c"), await desk.start("d")
    await desk.submit("a", "b")
    batch = [desk.reporting(held, 1), desk.completing(other), desk.claiming("ann", desk.nonces("ann", 5))]
    first = await desk.transitions.commit(desk.keys, batch)
    again = await desk.transitions.commit(desk.keys, batch)
    assert first[:2] == [b"shown", b"ok"]
    assert again[:2] == [b"again", b"again"]
    assert ageless(to_claims(again[2])) == ageless(to_claims(first[2]))
    assert await desk.story("c") == ["queued", "started 1", "progress 1 step 1"]
    assert await desk.story("d") == ["queued", "started 1", "completed 1"]


async def test_all_of_a_batch_is_heard_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    batch = [desk.reporting(held, 1), desk.completing(held)]
    assert await desk.transitions.commit(desk.keys, batch) == [b"shown", b"ok"]


@pytest.mark.parametrize("spoil", ["record", "log"])
async def test_one_broken_operation_disturbs_no_other(desk: Desk, spoil: str) -> None:
    await desk.submit("a", "b", "c", "d", "e")
    first, broken, third, fourth = await desk.claim(slots=4)
    await desk.store.command("DEL", getattr(desk.keys, spoil)(broken.key))
    await desk.store.command("SET", getattr(desk.keys, spoil)(broken.key), "corrupt")
    answers: list[Any] = await desk.transitions.commit(
        desk.keys,
        [
            desk.reporting(first, 1),
            desk.completing(broken),
            desk.completing(first),
            desk.failing(third),
            desk.releasing(fourth),
            desk.claiming("bob", desk.nonces("bob", 2)),
        ],
    )
    assert answers[0] == b"shown"
    assert answers[1][0] == b"error"
    assert answers[2:5] == [b"ok", b"failed", b"ok"]
    assert [claim.key for claim in to_claims(answers[5])] == ["d", "e"]
    assert await desk.story("a") == ["queued", "started 1", "progress 1 step 1", "completed 1"]
    assert sorted(lease.key for lease in (await desk.look()).leases) == ["b", "d", "e"]


async def test_one_call_settles_on_several_platforms(desk: Desk, shop: Desk) -> None:
    held, other = await desk.start("a"), await shop.start("b")
    await shop.submit("c")
    sheets = [
        (desk.keys, [desk.completing(held)]),
        (shop.keys, [shop.completing(other), shop.claiming("bob", shop.nonces("bob", 1))]),
    ]
    *words, answer = await Transitions(desk.store).run(sheets)
    assert words == [b"ok", b"ok"]
    assert [claim.key for claim in to_claims(answer)] == ["c"]
    assert await desk.story("a") == ["queued", "started 1", "completed 1"]
    assert (await shop.history("b"))[-1].jobId == "kurly.b"


@pytest.mark.parametrize("name", sorted({function.script for function in functions().values()}))
async def test_the_server_takes_every_script(desk: Desk, name: str) -> None:
    made = script(name)
    assert (await desk.store.command("SCRIPT", "LOAD", made.text)).decode() == made.sha


async def test_only_the_end_of_an_attempt_asks_for_a_claim_along_with_it(desk: Desk) -> None:
    """A report or a saved step frees no slot: a claim with each of them would cost more than they do."""
    held, settles = await desk.start(), [False]

    def claim(frees: bool) -> None:
        settles.append(frees)

    async with committing(desk, claim) as committer, asyncio.timeout(10):
        assert await committer.ask(desk.reporting(held, 1)) == b"shown"
        saving = call.save(desk.keys, key="a", nonce=held.nonce, most=100, name="s", value=b"1")
        assert await committer.ask(saving) == b"saved"
        await committer.ask(call.recall(desk.keys, key="a", nonce=held.nonce, cursor="0"))
        assert not any(settles)
        assert await committer.ask(desk.completing(held)) == b"ok"
        assert any(settles)


async def test_a_call_holds_forty_ends_or_eighty_reports(desk: Desk) -> None:
    held = await desk.start()
    for operation, most in ((desk.completing(held), 40), (desk.reporting(held, 1), 80), (desk.failing(held), 10)):
        committer = Committer(desk.transitions, desk.keys)
        for _ in range(most + 1):
            committer.say(operation, ignored)
        assert [len(committer._next(lambda _: None)) for _ in range(3)] == [most, 1, 0]


async def test_what_goes_together_is_never_cut_apart(desk: Desk) -> None:
    """The reports before an end and the end itself: in two calls under way the end might come first."""
    held = await desk.start()
    committer = Committer(desk.transitions, desk.keys)
    for _ in range(39):
        committer.say(desk.completing(held), ignored)
    committer.say(desk.completing(held), ignored, before=(desk.reporting(held, 1), ignored, 1))
    assert len(committer._next(lambda _: None)) == 39
    assert [operation.name for operation, _ in committer._next(lambda _: None)] == ["report", "complete"]


def ignored(answer: Any) -> None:
    """Nothing waits for this answer."""
