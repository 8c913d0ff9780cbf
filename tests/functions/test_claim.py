"""claim: jobs are handed out once, in order, each with a fence of its own."""

import asyncio

import pytest

from tailrace.streams.history.events import progress_of
from tailrace.streams.keys import BANDS
from tailrace.streams.messages import Claim
from tailrace.streams.replies import to_claims
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import ARGS_ROOM
from tests.functions.claims import keys_of
from tests.support.builders import Desk, ageless, forget_scripts


async def test_a_claim_opens_an_attempt(desk: Desk) -> None:
    await desk.submit("a", args=b'{"steps":3}')
    (held,) = ageless(await desk.claim("ann"))
    assert held == Claim("n1", "a", 1, "drill", b'{"steps":3}')
    record = await desk.record("a")
    assert (record.state, record.attempt, record.nonce, record.owner) == (State.RUNNING, 1, "n1", "ann")
    (lease,) = (await desk.look()).leases
    assert (lease.nonce, lease.key, lease.entry, lease.owner) == ("n1", "a", record.entry, "ann")
    assert lease.deadline_seconds == 10.0
    assert await desk.story("a") == ["queued", "started 1"]
    assert (await desk.history("a"))[-1].workerId == "ann"


async def test_an_empty_platform_gives_nothing(desk: Desk) -> None:
    assert await desk.claim() == []


async def test_a_job_is_handed_out_once(desk: Desk) -> None:
    await desk.submit("a")
    assert keys_of(await desk.claim("ann")) == ["a"]
    assert await desk.claim("bob") == []


async def test_no_more_jobs_than_free_slots(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    assert keys_of(await desk.claim(slots=2)) == ["a", "b"]
    assert await desk.claim(slots=0) == []
    assert keys_of(await desk.claim(slots=2)) == ["c"]


async def test_jobs_of_one_band_start_in_the_order_they_were_accepted(desk: Desk) -> None:
    for key in ("z", "m", "a"):
        await desk.submit(key)
    assert [keys_of(await desk.claim(owner)) for owner in ("ann", "bob", "cid")] == [["z"], ["m"], ["a"]]


async def test_urgent_goes_before_high_before_normal_before_low(desk: Desk) -> None:
    for band in reversed(BANDS):
        await desk.submit(f"{band}-1", f"{band}-2", band=band)
    assert keys_of(await desk.claim(slots=9)) == [f"{band}-{n}" for band in BANDS for n in (1, 2)]


async def test_a_recovered_job_goes_before_newer_ones_of_its_priority(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", band="low")
    _, second, third = await desk.claim("ann", slots=3)
    await desk.submit("e", band="urgent")
    await desk.release(third)
    await desk.reclaim(second)
    again = await desk.claim("bob", slots=9)
    assert [(held.key, held.number) for held in again] == [("e", 1), ("b", 2), ("c", 2), ("d", 1)]


async def test_one_at_a_time_means_over_all_claimers(shop: Desk) -> None:
    await shop.submit("a", "b", "c")
    (first,) = await shop.claim("ann", slots=3)
    assert await shop.claim("bob", slots=3) == []
    assert await shop.claim("ann", slots=3) == []
    await shop.complete(first)
    (second,) = await shop.claim("bob", slots=3)
    assert (first.key, second.key) == ("a", "b")
    await shop.release(second)
    assert keys_of(await shop.claim("ann", slots=3)) == ["b"]


async def test_two_claims_in_one_call_hold_to_the_limit_together(shop: Desk) -> None:
    await shop.submit("a", "b")
    claims = [shop.claiming("ann", shop.nonces("ann", 1)), shop.claiming("ann", shop.nonces("ann", 1))]
    answers = await shop.transitions.commit(shop.keys, claims)
    assert [keys_of(to_claims(answer)) for answer in answers] == [["a"], []]


async def test_a_limit_of_two_lets_two_run(store: Store) -> None:
    desk = Desk(store, max_running=2)
    await desk.submit("a", "b", "c")
    assert keys_of(await desk.claim("ann", slots=9)) == ["a", "b"]
    assert await desk.claim("bob", slots=9) == []


async def test_a_claim_tells_how_long_a_job_waited_for_its_first_start(desk: Desk) -> None:
    await desk.submit("a", "b")
    await asyncio.sleep(0.035)  # a timer may be early by a millisecond or two
    first, second = await desk.claim("ann", slots=2)
    assert first.waited_seconds is not None
    assert 0.03 <= first.waited_seconds < 5
    await desk.release(second)
    (again,) = await desk.claim("ann")
    assert (again.key, again.waited_seconds) == ("b", None)


async def test_a_job_that_was_put_off_does_not_tell_how_long_it_waited(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=0.01)
    await asyncio.sleep(0.02)
    assert [held.waited_seconds for held in await desk.claim("ann")] == [None]


async def test_a_repeated_claim_gives_the_same_jobs_under_the_same_nonces(desk: Desk) -> None:
    large = b'"' + b"x" * ARGS_ROOM + b'"'
    await desk.submit("a", args=large)
    await desk.submit("b")
    nonces = desk.nonces("ann", 3)
    first = await desk.claim_as("ann", nonces)
    assert keys_of(first) == ["a", "b"]
    assert ageless(await desk.claim_as("ann", nonces)) == ageless(first)
    assert await desk.story("a") == ["queued", "started 1"]
    await desk.submit("c")
    assert ageless(await desk.claim_as("ann", nonces)) == [*ageless(first), Claim(nonces[2], "c", 1, "drill", b"{}")]


async def test_a_repeated_claim_is_answered_although_the_platform_is_full(shop: Desk) -> None:
    await shop.submit("a", "b")
    nonces = shop.nonces("ann", 2)
    first = await shop.claim_as("ann", nonces)
    assert keys_of(first) == ["a"]
    assert ageless(await shop.claim_as("ann", nonces)) == ageless(first)


async def test_no_nonce_ever_stands_for_two_jobs(desk: Desk) -> None:
    """A claim may reach the server after its own repetition: two links, and the server stood still in between."""
    await desk.submit("a")
    nonces = desk.nonces("ann", 1)
    repetition = await desk.claim_as("ann", nonces)
    await desk.submit("b")
    assert ageless(await desk.claim_as("ann", nonces)) == ageless(repetition)
    assert (await desk.record("b")).state is State.WAITING


async def test_every_attempt_has_the_next_number(desk: Desk) -> None:
    await desk.submit("a")
    numbers = []
    for owner in ("ann", "bob", "ann"):
        (held,) = await desk.claim(owner)
        numbers.append(held.number)
        await desk.release(held)
    assert numbers == [1, 2, 3]


async def test_whoever_fills_the_slot_it_frees_wakes_nobody(shop: Desk) -> None:
    await shop.submit("a", "b")
    (held,) = await shop.claim("ann")
    await shop.asleep("zoe")
    batch = [shop.completing(held), shop.claiming("ann", shop.nonces("ann", 1))]
    assert keys_of(to_claims((await shop.transitions.commit(shop.keys, batch))[1])) == ["b"]
    assert await shop.called() == []


async def test_whoever_leaves_the_slot_it_frees_wakes_the_others(shop: Desk) -> None:
    await shop.submit("a", "b")
    (held,) = await shop.claim("ann")
    await shop.asleep("zoe")
    await shop.transitions.commit(shop.keys, [shop.completing(held), shop.claiming("ann", [])])
    assert await shop.called() == ["zoe"]


async def test_where_nobody_is_kept_waiting_a_freed_slot_wakes_nobody(desk: Desk) -> None:
    held = await desk.start()
    await desk.asleep("zoe")
    await desk.transitions.commit(desk.keys, [desk.completing(held), desk.claiming("ann", [])])
    assert await desk.called() == []


async def test_a_job_is_claimed_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await forget_scripts(desk.store)
    assert keys_of(await desk.claim()) == ["a"]


async def test_nothing_is_lost_and_nothing_runs_twice_when_the_groups_are_destroyed(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", band="high")
    running, released, reclaimed = await desk.claim("ann", slots=3)
    await desk.release(released)
    await desk.destroy_groups()
    await desk.reclaim(reclaimed)
    again = await desk.claim("bob", slots=9)
    assert sorted(keys_of(again)) == ["b", "c", "d"]
    assert await desk.claim("cid", slots=9) == []
    for held in (running, *again):
        assert await desk.complete(held) == "ok"
    assert (await desk.line("high"), await desk.pending("high")) == ([], [])


async def test_order_survives_the_destruction_of_the_groups(shop: Desk) -> None:
    await shop.submit("a", "b", "c")
    (held,) = await shop.claim("ann")
    await shop.destroy_groups()
    assert await shop.claim("bob") == []
    await shop.reclaim(held)
    started = []
    for owner in ("bob", "cid", "ann"):
        (held,) = await shop.claim(owner)
        started.append(held.key)
        await shop.complete(held)
    assert started == ["a", "b", "c"]


async def test_a_recovered_job_still_goes_first_when_the_front_holds_a_name_that_no_longer_counts(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", slots=2)
    await desk.release(first)
    await desk.release(second)
    await desk.destroy_groups()  # both names stay at the front, but their entries pend nowhere
    _, second = await desk.claim("bob", slots=2)
    await desk.release(second)
    await desk.submit("newer")
    assert keys_of(await desk.claim("cid")) == ["b"]


async def test_an_entry_whose_job_nobody_knows_is_cleared_away(desk: Desk) -> None:
    await desk.submit("a", "b")
    await desk.store.command("DEL", desk.keys.record("a"))
    assert keys_of(await desk.claim(slots=1)) == ["b"]
    assert [entry for entry, _ in await desk.pending()] == await desk.line() == [(await desk.record("b")).entry]


async def test_a_name_at_the_front_whose_job_nobody_knows_is_passed_over(desk: Desk) -> None:
    await desk.submit("a")
    await desk.store.command("ZADD", desk.keys.front("normal"), 1, "unknown")
    assert keys_of(await desk.claim(slots=2)) == ["a"]
    assert await desk.front() == []


async def test_a_job_with_a_corrupt_record_holds_up_no_other(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    key = desk.keys.record("b")
    await desk.store.command("DEL", key)
    await desk.store.command("SET", key, "corrupt")
    claims = await desk.claim(slots=2)
    assert keys_of(claims) == ["a", "c"]
    assert len((await desk.look()).leases) == 2
    assert [await desk.complete(held) for held in claims] == ["ok", "ok"]


async def test_jobs_claimed_in_one_call_share_no_event_id(desk: Desk) -> None:
    await desk.submit(*(f"job-{number}" for number in range(20)))
    claims = await desk.claim("ann", 20)
    ids = {(await desk.history(held.key))[-1].id for held in claims}
    assert len(ids) == 20


async def test_a_new_attempt_begins_without_the_progress_of_the_old_one(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1, step=40)
    assert progress_of(1, await desk.log("a")) == 40
    await desk.release(held)
    await desk.claim()
    assert progress_of(2, await desk.log("a")) is None


async def test_a_job_that_is_handed_back_a_hundred_times_ends_failed(desk: Desk) -> None:
    await desk.submit("circle")
    for number in range(1, 101):
        (held,) = await desk.claim()
        assert held.number == number
        await desk.release(held)
    last = (await desk.history("circle"))[-1]
    assert last.status == "failed"
    assert last.error is not None
    assert last.error.type == "TooManyStarts"
    assert await desk.claim() == []


async def claim_all(desk: Desk, slots: int) -> list[list[str]]:
    """What each of several calls brings, while one says to come again at once."""
    brought = []
    while True:
        nonces = desk.nonces("ann", slots)
        (answer,) = await desk.transitions.commit(desk.keys, [desk.claiming("ann", nonces)])
        assert sum(map(len, answer)) <= 1024 * 1024 + 10_000
        claims = to_claims(answer)
        assert all(len(claim.args) > 2 for claim in claims)
        brought.append(keys_of(claims))
        if answer[0] != b"0":
            return brought


@pytest.mark.parametrize("size", [5_000, 300_000, 1_000_000])
async def test_an_answer_has_about_a_megabyte_at_most_and_the_rest_comes_with_the_next(desk: Desk, size: int) -> None:
    keys = [f"job-{number:03}" for number in range(260 if size < 10_000 else 7)]
    await desk.submit(*keys, args=b'"' + b"x" * size + b'"')
    await desk.submit("small", args=b"[1]")
    brought = await claim_all(desk, 300)
    assert [key for part in brought for key in part] == [*keys, "small"]
    assert len(brought) == {5_000: 2, 300_000: 3, 1_000_000: 7}[size]
    assert await desk.idle() == ["ann"]


async def test_jobs_at_the_front_keep_their_order_when_an_answer_is_full(desk: Desk) -> None:
    large = b'"' + b"x" * 600_000 + b'"'
    await desk.submit("a", "b", "c", args=large)
    await desk.submit("first", args=large, first=True)
    await desk.submit("before", args=large, first=True)
    brought = await claim_all(desk, 9)
    assert [key for part in brought for key in part] == ["before", "first", "a", "b", "c"]


async def test_a_full_answer_holds_back_nothing_that_a_limit_or_an_order_counts(store: Store) -> None:
    desk = Desk(store, max_running_per_key=2)
    large = b'"' + b"x" * 600_000 + b'"'
    await desk.submit("a", "b", "c", args=large, limit_key="l")
    (first,) = await desk.claim(slots=9)
    assert await desk.store.command("HGET", desk.keys["limits"], "l") == b"1"
    (second,) = await desk.claim(slots=9)
    assert [first.key, second.key, *keys_of(await desk.claim(slots=9))] == ["a", "b"]
    await desk.complete(first)
    assert keys_of(await desk.claim(slots=9)) == ["c"]


async def test_an_unheard_answer_that_was_full_is_given_again_as_it_was(desk: Desk) -> None:
    await desk.submit("a", "b", "c", args=b'"' + b"x" * 600_000 + b'"')
    nonces = desk.nonces("ann", 3)
    first = await desk.claim_as("ann", nonces)
    again = await desk.claim_as("ann", nonces)
    assert keys_of(first) == ["a"]
    assert keys_of(again) == ["a", "b"], "the slots that stayed free may be filled"


@pytest.mark.parametrize(("size", "starts"), [(10, ["a", "b"]), (10_000, ["b"])])
async def test_a_job_at_the_front_with_corrupt_args_holds_up_no_other(desk: Desk, size: int, starts: list[str]) -> None:
    """Small args stand in its entry: what is beside it does not matter."""
    await desk.submit("a", args=b"1" * size)
    (held,) = await desk.claim()
    await desk.release(held)
    await desk.submit("b")
    await desk.store.command("DEL", desk.keys.args("a"))
    await desk.store.command("LPUSH", desk.keys.args("a"), "corrupt")
    assert [held.key for held in await desk.claim(slots=3)] == starts
    assert (await desk.record("a")).state is (State.RUNNING if "a" in starts else State.FAILED)
