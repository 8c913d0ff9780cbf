"""mend: a job that no list names comes back in line, whatever was deleted by hand."""

from collections.abc import Awaitable, Callable

import pytest

from tailrace.streams.keys import GROUP
from tailrace.streams.messages import Claim
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import MEND_BATCH
from tests.support.builders import Desk, forget_scripts, untouched

HOUR = 3600.0
Damage = Callable[[Desk], Awaitable[None]]


async def delete_the_worker(desk: Desk) -> None:
    await desk.store.command("XGROUP", "DELCONSUMER", desk.keys.jobs("normal"), GROUP, "ann")


async def delete_the_front(desk: Desk) -> None:
    await desk.store.command("XGROUP", "DELCONSUMER", desk.keys.jobs("normal"), GROUP, "front")


async def acknowledge_all(desk: Desk) -> None:
    for entry in await desk.line():
        await desk.store.command("XACK", desk.keys.jobs("normal"), GROUP, entry)


async def destroy_the_group(desk: Desk) -> None:
    await desk.destroy_groups()


DAMAGES = [delete_the_worker, delete_the_front, acknowledge_all, destroy_the_group]


async def retry(desk: Desk, held: Claim) -> None:
    assert await desk.fail(held, attempts=3) == "retrying"


async def put_off(desk: Desk, held: Claim) -> None:
    assert await desk.delay(held, 0) == "ok"


async def hand_back(desk: Desk, held: Claim) -> None:
    assert await desk.release(held) == "ok"


async def lose(desk: Desk, held: Claim) -> None:
    assert await desk.reclaim(held) == "reclaimed"


async def end_it(desk: Desk, held: Claim) -> None:
    assert await desk.fail(held) == "failed"
    assert await desk.transitions.reopen(desk.keys, held.key) == "ok"


WAYS = [retry, put_off, hand_back, lose, end_it]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_job_goes_on_whatever_became_of_its_pending_entry(
    desk: Desk, way: Callable[[Desk, Claim], Awaitable[None]], damage: Damage, when: str
) -> None:
    held = await desk.start()
    other = await desk.start("other", "bob")
    if when == "before":
        await damage(desk)
    await way(desk, held)
    if when == "after":
        await damage(desk)
    again = [*await desk.claim("bob", 5), *await desk.claim("bob", 5)]
    assert [(claim.key, claim.number) for claim in again] == [("a", 2)]
    assert [await desk.complete(claim) for claim in (other, *again)] == ["ok", "ok"]
    assert (await desk.line(), await desk.pending()) == ([], [])


@pytest.mark.parametrize("damage", DAMAGES)
async def test_delayed_and_parked_jobs_start_whatever_became_of_their_entries(store: Store, damage: Damage) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("later", delay_seconds=HOUR)
    await desk.submit("k1", "k2", limit_key="k")
    await desk.submit("o1", "o2", order_key="o")
    started = await desk.claim("ann", 9)
    assert [held.key for held in started] == ["k1", "o1"]
    await damage(desk)
    await desk.past_due("later")
    for held in started:
        await desk.complete(held)
    found = [*await desk.claim("bob", 9), *await desk.claim("bob", 9)]
    assert sorted(held.key for held in found) == ["k2", "later", "o2"]


async def sweep(desk: Desk, cursor: str = "") -> tuple[str, list[str]]:
    (swept,) = await desk.transitions.mend([(desk.keys, cursor)])
    return swept.cursor, swept.mended


async def test_a_job_that_was_handed_out_past_us_is_found(desk: Desk) -> None:
    """Somebody read the line with another tool: no claim will ever see the entry."""
    await desk.start("first")
    await desk.submit("a", "b")
    line = desk.keys.jobs("normal")
    await desk.store.command("XREADGROUP", "GROUP", GROUP, "stranger", "COUNT", 2, "STREAMS", line, ">")
    await desk.store.command("XACK", line, GROUP, (await desk.record("b")).entry)
    assert await desk.claim("idle", 5) == []
    assert await desk.called() == []
    assert await sweep(desk) == ("", ["a", "b"])
    assert await desk.called() == ["idle"]
    assert [held.key for held in await desk.claim("ann", 5)] == ["a", "b"]


async def test_a_healthy_platform_is_left_as_it_is(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("later", delay_seconds=HOUR)
    await desk.submit("k1", "k2", limit_key="k")
    await desk.submit("o1", "o2", order_key="o")
    await desk.submit("back")
    held = {held.key: held for held in await desk.claim("ann", 9)}
    await desk.release(held["back"])
    await desk.submit("waits", "first")
    async with untouched(desk.store):
        assert await sweep(desk) == ("", [])


async def test_a_job_whose_names_were_all_removed_comes_back(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1, key_rate=5)
    await desk.submit("k1", "k2", limit_key="k")
    await desk.submit("o1", "o2", order_key="o")
    await desk.submit("front")
    await desk.submit("later", delay_seconds=HOUR)
    held = {held.key: held for held in await desk.claim("ann", 9)}
    await desk.release(held["front"])
    await desk.store.command("DEL", desk.keys.parked("k"), desk.keys.front("normal"), desk.keys["due"])
    await desk.store.command("DEL", desk.keys.order("o"))
    await desk.complete(held["k1"])
    await desk.complete(held["o1"])
    assert sorted((await sweep(desk))[1]) == ["front", "k2", "later", "o2"]
    assert (await sweep(desk))[1] == []
    found = [*await desk.claim("bob", 9), *await desk.claim("bob", 9)]
    assert sorted(claim.key for claim in found) == ["front", "k2", "later", "o2"]


async def test_parked_jobs_that_nothing_will_call_are_called(store: Store) -> None:
    desk = Desk(store, key_rate=1, key_rate_seconds=60)
    await desk.submit("k1", "k2", "k3", limit_key="k")
    (held,) = await desk.claim("ann", 9)
    await desk.store.command("DEL", desk.keys["alarms"], desk.keys.starts("k"))
    assert await sweep(desk) == ("", []), "the end of the running one calls the next"
    await desk.store.command("DEL", desk.keys["limits"])
    assert (await sweep(desk))[1] == ["k2"]
    assert (await desk.claim("bob", 9))[0].key == "k2"
    assert held.key == "k1"


async def test_an_order_whose_head_is_not_kept_any_more_goes_on(desk: Desk) -> None:
    await desk.submit("o1", "o2", order_key="o")
    (held,) = await desk.claim("ann", 9)
    await desk.store.command("ZADD", desk.keys.order("o"), 0, "ghost")
    await desk.complete(held)
    assert await desk.claim("ann", 9) == []
    assert (await sweep(desk))[1] == ["o2"]
    assert [claim.key for claim in await desk.claim("ann", 9)] == ["o2"]


async def test_a_running_job_without_its_lease_is_lost_and_comes_back(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", limit_key="k")
    (held,) = await desk.claim("ann")
    await desk.report(held, 1)
    await desk.store.command("HDEL", desk.keys["leases"], held.nonce)
    assert (await sweep(desk))[1] == ["a"]
    assert await desk.complete(held) == "lost"
    (again,) = await desk.claim("bob")
    await desk.complete(again)
    assert await desk.story("a") == [
        "queued", "started 1", "progress 1 step 1", "superseded 1", "started 2", "completed 2"
    ]  # fmt: skip
    assert [event.seq for event in await desk.history("a")] == [1, 2, 3, 4, 5, 6]
    assert await desk.leftovers() == []


async def test_a_running_job_without_its_lease_that_said_nothing_yet_keeps_its_start(desk: Desk) -> None:
    held = await desk.start()
    await desk.store.command("HDEL", desk.keys["leases"], held.nonce)
    assert (await sweep(desk))[1] == ["a"]
    assert await desk.story("a") == ["queued", "started 1", "superseded 1"]


async def test_entries_that_belong_to_no_live_job_are_cleared_away(desk: Desk) -> None:
    await desk.submit("a", "b")
    await desk.claim("ann", 2)
    await desk.store.command("DEL", desk.keys.record("a"))
    await sweep(desk)
    assert await desk.line() == [(await desk.record("b")).entry]


async def delete_entry(desk: Desk, key: str) -> None:
    await desk.store.command("XDEL", desk.keys.jobs("normal"), (await desk.record(key)).entry)


@pytest.mark.parametrize("way", [hand_back, lose, retry, put_off])
async def test_a_job_whose_entry_was_deleted_goes_on_when_its_args_are_kept_beside_it(
    desk: Desk, way: Callable[[Desk, Claim], Awaitable[None]]
) -> None:
    args = b'"%b"' % (b"x" * 9000)
    await desk.submit("a", args=args)
    (held,) = await desk.claim()
    await delete_entry(desk, "a")
    await way(desk, held)
    (again,) = await desk.claim("bob")
    assert (again.key, again.number, again.args) == ("a", 2, args)
    assert await desk.complete(again) == "ok"
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_a_job_whose_entry_and_args_were_deleted_ends_failed(desk: Desk) -> None:
    ends = {"a": "release", "b": "reclaim", "c": "delay", "d": "fail"}
    await desk.submit(*ends)
    held = {claim.key: claim for claim in await desk.claim("ann", 4)}
    for key in ends:
        await delete_entry(desk, key)
    assert await desk.release(held["a"]) == "failed"
    assert await desk.reclaim(held["b"]) == "failed"
    assert await desk.delay(held["c"], HOUR) == "failed"
    assert await desk.fail(held["d"], attempts=3, seconds=HOUR) == "failed"
    errors = {key: (await desk.history(key))[-1].error for key in ends}
    assert {key: error.type for key, error in errors.items() if error} == {
        "a": "EntryLost", "b": "EntryLost", "c": "EntryLost", "d": "ValueError"
    }  # fmt: skip
    assert (await desk.look()).leases == ()


async def test_a_job_at_the_front_whose_entry_was_deleted_goes_on_or_ends(desk: Desk) -> None:
    large = b'"%b"' % (b"x" * 9000)
    await desk.submit("large", args=large)
    await desk.submit("small")
    for held in await desk.claim("ann", 2):
        await desk.release(held)
    for key in ("large", "small"):
        await delete_entry(desk, key)
    found = [*await desk.claim("bob", 2), *await desk.claim("bob", 2)]
    assert [(held.key, held.args) for held in found] == [("large", large)]
    assert (await desk.record("small")).state is State.FAILED


async def test_named_jobs_whose_entries_were_deleted_in_line_go_on_or_end(desk: Desk) -> None:
    large = b'"%b"' % (b"x" * 9000)
    await desk.submit("large", args=large)
    await desk.submit("small", "fine")
    await desk.submit("later", delay_seconds=HOUR)
    for key in ("large", "small", "later"):
        await delete_entry(desk, key)
    named = ["large", "small", "fine", "later", "unknown"]
    (swept,) = await desk.transitions.mend([(desk.keys, "")], jobs=named)
    assert swept.mended == ["large", "small", "later"]
    assert await desk.story("small") == ["queued", "failed"]
    await desk.past_due("later")
    found = [*await desk.claim("bob", 9), *await desk.claim("bob", 9)]
    assert sorted(held.key for held in found) == ["fine", "large", "later"]


async def test_a_sweep_is_bounded_and_goes_on_where_it_stopped(desk: Desk) -> None:
    jobs = [f"job-{number:04}" for number in range(500)]
    await desk.submit(*jobs, delay_seconds=HOUR)
    await desk.submit("last")
    assert [held.key for _ in range(12) for held in await desk.claim("ann", 1)] == ["last"]
    await desk.store.command("DEL", desk.keys["due"])
    cursor, first = await sweep(desk)
    assert cursor.startswith("normal ")
    assert 0 < len(first) <= MEND_BATCH
    mended = first
    while cursor:
        cursor, some = await sweep(desk, cursor)
        mended += some
    assert mended == jobs


async def test_a_sweep_reads_large_args_in_smaller_pages(desk: Desk) -> None:
    args = b'"%b"' % (b"x" * 8000)
    await desk.submit(*(f"job-{number}" for number in range(50)), args=args)
    assert len(await desk.claim("ann", 50)) == 50 < MEND_BATCH
    assert (await sweep(desk))[0] != ""


async def test_a_job_with_corrupt_keys_holds_up_no_other(desk: Desk) -> None:
    await desk.submit("a", "b")
    for held in await desk.claim("ann", 2):
        await desk.release(held)
    await desk.store.command("DEL", desk.keys.front("normal"), desk.keys.record("a"))
    await desk.store.command("SET", desk.keys.record("a"), "corrupt")
    assert await sweep(desk) == ("", ["b"])


async def test_it_says_how_many_owners_beat(desk: Desk) -> None:
    for owner in ("ann", "bob"):
        await desk.beat(owner)
    (swept,) = await desk.transitions.mend([(desk.keys, "")])
    assert swept.owners == 2


async def test_it_mends_after_the_server_forgot_the_script(desk: Desk) -> None:
    await forget_scripts(desk.store)
    assert await sweep(desk) == ("", [])
