"""tidy: what can only be broken by hand is put right in one step, and what is right is left alone."""

from typing import Any

import pytest

from tailrace.streams.leases import see_limit
from tailrace.streams.operations import call
from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched


async def look(desk: Desk, what: str, name: str = "") -> str:
    return await desk.transitions.tidy(desk.keys, what, name, act=False)


async def tidy(desk: Desk, what: str, name: str = "") -> str:
    """What it answers; what was wrong is fine afterwards, and to look changes nothing."""
    async with untouched(desk.store):
        seen = await look(desk, what, name)
    said = await desk.transitions.tidy(desk.keys, what, name, act=True)
    assert (seen, said) in (("wrong", "ok"), ("fine", "fine"))
    assert await look(desk, what, name) == "fine"
    return said


async def test_a_lease_that_cannot_be_read_goes(desk: Desk) -> None:
    await desk.start("a")
    await desk.store.command("HSET", desk.keys["leases"], "n9", "rubbish")
    assert await tidy(desk, "lease", "n9") == "ok"
    assert len((await desk.look()).leases) == 1


async def test_a_lease_of_a_job_that_runs_stays(desk: Desk) -> None:
    held = await desk.start("a")
    assert await tidy(desk, "lease", held.nonce) == "fine"
    assert await tidy(desk, "lease", "unknown") == "fine"
    assert await desk.complete(held) == "ok"


async def test_a_lease_without_an_attempt_gives_back_what_it_held(desk: Desk) -> None:
    limited = Desk(desk.store, desk.keys.platform, max_running_per_key=1)
    await limited.submit("a", "b", limit_key="shop", order_key="cart")
    (held,) = await limited.claim("ann", 2)
    await desk.store.command("DEL", desk.keys.record("a"))
    assert await tidy(desk, "lease", held.nonce) == "ok"
    assert [again.key for again in await limited.claim("bob", 2)] == ["b"]


async def test_a_place_at_the_front_is_for_a_job_that_waits(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.store.command("ZADD", desk.keys.front("low"), 1, "ghost", 2, "a")
    await desk.store.command("ZADD", desk.keys["suspects"], 1, "a")
    assert [await tidy(desk, "front", key) for key in ("ghost", "a")] == ["ok", "ok"]
    await desk.release(held)
    assert await tidy(desk, "front", "a") == "fine"
    assert [again.key for again in await desk.claim()] == ["a"]


async def test_an_entry_is_for_a_job_that_is_kept(desk: Desk) -> None:
    await desk.submit("a", "b")
    entries = {key: (await desk.record(key)).entry for key in "ab"}
    await desk.store.command("DEL", desk.keys.record("a"))
    await desk.store.command("SET", desk.keys.record("c"), "a string")
    foreign = (await desk.store.command("XADD", desk.keys.jobs("normal"), "*", "id", "c")).decode()
    for entry, said in ((entries["a"], "ok"), (foreign, "ok"), (entries["b"], "fine")):
        assert await tidy(desk, "entry", f"normal {entry}") == said
    assert await desk.line() == [entries["b"]]


async def test_a_limit_key_counts_the_jobs_that_run(desk: Desk) -> None:
    limited = Desk(desk.store, desk.keys.platform, max_running_per_key=2)
    await limited.submit("a", "b", "c", limit_key="shop")
    first, _ = await limited.claim("ann", 3)
    assert await tidy(desk, "limit", "shop") == "fine"
    await desk.store.command("HSET", desk.keys["limits"], "shop", 7, "other", 3)
    assert await tidy(desk, "limit", "other") == "ok"
    assert await tidy(desk, "limit", "shop") == "ok"
    assert await desk.store.command("HGETALL", desk.keys["limits"]) == [b"shop", b"2"]
    assert await limited.claim("ann", 3) == [], "as many run as may"
    await limited.complete(first)
    assert [again.key for again in await limited.claim("ann", 3)] == ["c"]


async def test_what_waits_for_a_limit_key_that_counted_too_many_goes_on(desk: Desk) -> None:
    limited = Desk(desk.store, desk.keys.platform, max_running_per_key=1)
    await limited.submit("a", "b", limit_key="shop")
    await desk.store.command("HSET", desk.keys["limits"], "shop", 1)
    assert await limited.claim("ann", 2) == []
    assert await tidy(desk, "limit", "shop") == "ok"
    assert [held.key for held in await limited.claim("ann", 2)] == ["a"]


async def tidy_limit(desk: Desk, label: str, seen: str) -> str:
    return await desk.transitions.word(desk.keys, call.tidy(what="limit", name=label, seen=seen, act=1))


async def test_jobs_that_start_and_end_while_leases_are_looked_at_are_counted(desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d", limit_key="shop")
    first, _ = await desk.claim("ann", 2)
    seen = await see_limit(desk.store, desk.keys, "shop")
    await desk.claim("ann", 2)
    await desk.complete(first)
    await desk.store.command("HSET", desk.keys["limits"], "shop", 7)
    assert await tidy_limit(desk, "shop", seen) == "ok"
    assert await desk.store.command("HGET", desk.keys["limits"], "shop") == b"3"


@pytest.mark.parametrize("since", ["0", "99999"])
async def test_a_limit_key_is_left_alone_when_the_feed_cannot_tell_what_happened(desk: Desk, since: str) -> None:
    """It has 501 events since then, or was cut by hand."""
    await desk.submit(*(f"job-{n}" for n in range(501)))
    assert len(await desk.claim("ann", 501)) == 501
    await desk.store.command("HSET", desk.keys["limits"], "shop", 7)
    async with untouched(desk.store):
        assert await tidy_limit(desk, "shop", since) == "moved"
    assert await tidy(desk, "limit", "shop") == "ok"


@pytest.mark.parametrize("holder", ["gone", "b"])
async def test_an_order_is_held_by_a_job_that_runs(desk: Desk, holder: str) -> None:
    await desk.submit("a", "b", order_key="cart")
    await desk.store.command("HSET", desk.keys["orders"], "cart", holder)
    assert await tidy(desk, "order", "cart") == "ok"
    assert [held.key for held in await desk.claim("ann", 2)] == ["a"]
    assert await tidy(desk, "order", "cart") == "fine"


DAMAGES: list[tuple[Any, ...]] = [
    ("HSET", "state", "dancing"),
    ("HDEL", "state"),
    ("HSET", "crashes", "many"),
    ("HSET", "band", "nowhere"),
    ("HDEL", "fingerprint"),
    ("HSET", "accepted", "long ago"),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: "-".join(damage[:2]))
async def test_a_damaged_record_is_made_of_what_is_left(desk: Desk, damage: tuple[str, ...]) -> None:
    """A job that waits, one that runs, one that rests and one that has ended: each is where it was."""
    await desk.complete(await desk.start("ended"))
    running = await desk.start("running")
    await desk.submit("waiting")
    await desk.submit("resting", delay_seconds=600)
    jobs = ("waiting", "running", "resting", "ended")
    before = [(await desk.record(job)).state for job in jobs]
    for job in jobs:
        await desk.store.command(damage[0], desk.keys.record(job), *damage[1:])
        assert await tidy(desk, "record", job) == "ok"
    assert [(await desk.record(job)).state for job in jobs] == before
    assert await desk.complete(running) == "ok"
    assert [held.key for held in await desk.claim("ann", 3)] == ["waiting"]


@pytest.mark.parametrize("damage", [("HDEL", "kind"), ("HDEL", "entry"), ("HSET", "entry", "nowhere")])
async def test_a_job_of_which_too_little_is_left_ends_failed(desk: Desk, damage: tuple[str, ...]) -> None:
    await desk.submit("a")
    await desk.store.command(damage[0], desk.keys.record("a"), *damage[1:])
    assert await tidy(desk, "record", "a") == "ok"
    assert (await desk.record("a")).state is State.FAILED
    assert await desk.story("a") == ["queued", "failed"]


async def test_a_record_that_can_be_read_stays(desk: Desk) -> None:
    await desk.submit("a")
    assert await tidy(desk, "record", "a") == "fine"
    assert await tidy(desk, "record", "unknown") == "fine"


async def test_an_idle_consumer_is_called_unless_one_is(desk: Desk) -> None:
    await desk.submit("a")
    assert await tidy(desk, "call") == "fine"
    await desk.asleep("ann")
    assert await tidy(desk, "call") == "ok"
    assert await desk.store.command("EXISTS", desk.keys.bell("ann")) == 1


async def test_it_works_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.store.command("HSET", desk.keys["leases"], "n9", "rubbish")
    await forget_scripts(desk.store)
    assert await desk.transitions.tidy(desk.keys, "lease", "n9", act=True) == "ok"


async def test_a_line_without_its_group_is_no_obstacle(desk: Desk) -> None:
    await desk.submit("a")
    await desk.store.command("HSET", desk.keys.record("a"), "state", "dancing")
    await desk.destroy_groups()
    assert await tidy(desk, "record", "a") == "ok"
    assert [held.key for held in await desk.claim()] == ["a"]
