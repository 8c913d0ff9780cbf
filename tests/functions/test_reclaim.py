"""reclaim: only a silent owner loses its job, and a job that loses too many owners ends."""

from tailrace.streams.keys import FRONT
from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched


async def test_a_silent_owner_loses_its_job_to_the_front_of_the_line(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.beat("ann", [held])
    assert await desk.reclaim(held) == "reclaimed"
    record = await desk.record("a")
    assert (record.state, record.crashes, record.attempt) == (State.WAITING, 1, 1)
    assert await desk.front() == ["a"]
    assert await desk.pending() == [(record.entry, FRONT)]
    assert (await desk.look()).leases == ()
    last = (await desk.history("a"))[-1]
    assert (last.status, last.attempt, last.workerId, last.reason) == ("superseded", 1, "ann", "lost")


async def test_an_owner_that_beat_since_keeps_its_job(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.beat("ann", [held])
    seen = (await desk.look()).beats["ann"]
    await desk.beat("ann", [held])
    async with untouched(desk.store):
        assert await desk.reclaim(held, seen) == "alive"


async def test_an_owner_whose_first_beat_came_since_keeps_its_job(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.beat("ann", [held])
    async with untouched(desk.store):
        assert await desk.reclaim(held, "0") == "alive"


async def test_an_owner_that_never_beat_loses_its_job(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    assert await desk.reclaim(held, "0") == "reclaimed"


async def test_an_owner_whose_counter_was_removed_by_hand_loses_its_job(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await desk.store.command("DEL", desk.keys["beats"])
    assert await desk.reclaim(held, "") == "reclaimed"


async def test_a_lease_that_is_over_is_not_reclaimed(desk: Desk) -> None:
    await desk.submit("a", "b")
    ended, released = await desk.claim(slots=2)
    await desk.complete(ended)
    await desk.release(released)
    async with untouched(desk.store):
        assert await desk.reclaim(ended) == "gone"
        assert await desk.reclaim(released) == "gone"


async def test_a_repeated_reclaim_takes_nothing_from_the_next_attempt(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await desk.reclaim(old) == "gone"
    (new,) = await desk.claim("ann")  # the same owner, with the same silent counter
    async with untouched(desk.store):
        assert await desk.reclaim(old) == "gone"
    assert await desk.complete(new) == "ok"


async def test_the_third_loss_ends_the_job_failed(desk: Desk) -> None:
    await desk.submit("a")
    words = []
    for owner in ("ann", "bob", "cid"):
        (held,) = await desk.claim(owner)
        words.append(await desk.reclaim(held))
    assert words == ["reclaimed", "reclaimed", "failed"]
    assert await desk.story("a") == [
        "queued",
        "started 1",
        "superseded 1",
        "started 2",
        "superseded 2",
        "started 3",
        "failed 3",
    ]
    last = (await desk.history("a"))[-1]
    assert last.error is not None
    assert (last.error.type, last.reason, last.workerId) == ("WorkerLost", "lost", "cid")
    record = await desk.record("a")
    assert (record.state, record.crashes) == (State.FAILED, 3)
    assert (await desk.line(), await desk.pending(), await desk.front()) == ([], [], [])
    assert (await desk.look()).leases == ()
    assert await desk.store.command("ZRANGE", desk.keys["ended_failed"], 0, -1) == [b"a"]
    async with untouched(desk.store):
        assert await desk.complete(held) == "lost"


async def test_released_attempts_do_not_count_as_lost(desk: Desk) -> None:
    await desk.submit("a")
    for _ in range(5):
        (held,) = await desk.claim()
        await desk.release(held)
    (held,) = await desk.claim()
    assert await desk.reclaim(held) == "reclaimed"


async def test_the_entry_of_a_job_that_is_no_longer_pending_comes_again_from_the_line(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", slots=2)
    await desk.destroy_groups()
    assert await desk.reclaim(first) == "reclaimed"
    assert await desk.front() == []
    (again,) = await desk.claim("bob", slots=5)
    assert (again.key, again.number) == ("a", 2)
    assert [await desk.complete(held) for held in (second, again)] == ["ok", "ok"]
    assert (await desk.line(), await desk.pending()) == ([], [])


async def test_a_neighbours_entry_is_left_alone_when_ones_own_is_gone(desk: Desk) -> None:
    await desk.submit("a", "b")
    first, second = await desk.claim("ann", slots=2)
    mine, neighbours = (await desk.record("a")).entry, (await desk.record("b")).entry
    await desk.store.command("XACK", desk.keys.jobs("normal"), "consumers", mine)
    assert await desk.reclaim(first) == "reclaimed"
    assert await desk.pending() == [(mine, "front"), (neighbours, "ann")]
    assert await desk.complete(second) == "ok"


async def test_a_lease_without_its_attempt_is_cleared_away(shop: Desk) -> None:
    held = await shop.start("a", "ann")
    await shop.submit("b")
    await shop.store.command("DEL", shop.keys.record("a"))
    assert await shop.reclaim(held) == "gone"
    assert [claim.key for claim in await shop.claim("bob")] == ["b"]


async def test_a_reclaimed_job_calls_an_idle_consumer(shop: Desk) -> None:
    held = await shop.start("a", "ann")
    await shop.asleep("zoe")
    await shop.reclaim(held)
    assert await shop.called() == ["zoe"]


async def test_a_job_is_reclaimed_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start("a", "ann")
    await forget_scripts(desk.store)
    assert await desk.reclaim(held, "0") == "reclaimed"
