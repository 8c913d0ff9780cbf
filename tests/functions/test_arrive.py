"""arrive: the end of a child reaches its parent once, and the parent goes on exactly once."""

from tailrace.streams.operations import Again
from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import arrive, child_of, children, ended, join, other, outbox, spawn, wait, waiting_parent

NO_MORE = Again(0, 0, 100)


async def test_a_parent_goes_on_when_the_last_child_has_ended(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.b", "kurly.c")
    assert await arrive(desk, "a", "kurly.b") == "ok"
    assert (await desk.record("a")).state is State.AWAITING
    await desk.asleep("zoe")
    assert await arrive(desk, "a", "kurly.c") == "ok"
    assert (await desk.record("a")).state is State.WAITING
    assert (await desk.front(), await desk.called()) == (["a"], ["zoe"])
    (again,) = await desk.claim("bob")
    assert (again.key, again.number) == ("a", 2)
    assert await join(desk, again, "kurly.b", "kurly.c", number="2-1") == [ended().decode()] * 2
    assert await wait(desk, again, place="2-1") == ["ready", ""]


async def test_the_first_end_counts(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.b", "kurly.c")
    await arrive(desk, "a", "kurly.b", ended(1))
    async with untouched(desk.store):
        assert await arrive(desk, "a", "kurly.b", ended(2)) == "again"
    assert (await desk.record("a")).wanted == 1


async def test_a_child_that_nobody_spawned_is_refused(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, child_of("kurly.d", child=False))
    async with untouched(desk.store):
        assert await arrive(desk, "a", "kurly.x") == "foreign"
        assert await arrive(desk, "a", "kurly.d") == "foreign"
        assert await arrive(desk, "gone", "kurly.x") == "missing"


async def test_the_first_failure_wakes_a_parent_that_wants_no_other(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.b", "kurly.c", fails=1)
    await arrive(desk, "a", "kurly.c", ended(status="failed"))
    assert (await desk.record("a")).state is State.WAITING


async def test_a_parent_that_wants_all_ends_waits_for_the_others(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.b", "kurly.c")
    await arrive(desk, "a", "kurly.c", ended(status="failed"))
    assert (await desk.record("a")).state is State.AWAITING


async def test_a_child_that_no_join_wants_wakes_nobody(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c")
    await join(desk, held, "kurly.b")
    await wait(desk, held)
    await arrive(desk, "a", "kurly.c")
    assert (await desk.record("a")).state is State.AWAITING


async def test_an_end_between_the_last_page_and_the_wait_is_not_missed(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b")
    await join(desk, held, "kurly.b")
    await arrive(desk, "a", "kurly.b")
    async with untouched(desk.store):
        assert await wait(desk, held) == ["ready", ""]


async def test_a_child_of_the_same_platform_brings_its_end_itself(desk: Desk) -> None:
    await waiting_parent(desk, "shop.b", "shop.c", "shop.d")
    one, two, three = await desk.claim("bob", slots=3)
    await desk.complete(one, 1)
    await desk.fail(two)
    assert (await desk.record("a")).state is State.AWAITING
    await desk.cancel("d")
    await desk.release(three)
    assert (await desk.record("a")).state is State.WAITING
    words = [news.split(" ")[1] for news in (await children(desk, "a")).values()]
    assert sorted(words) == ["cancelled", "completed", "failed"]
    assert await desk.store.command("EXISTS", desk.keys["outbox"]) == 0


async def test_a_corrupt_parent_keeps_no_child_from_ending(desk: Desk) -> None:
    await waiting_parent(desk, "shop.b")
    (child,) = await desk.claim()
    await desk.store.command("SET", desk.keys.children("a"), "x")
    assert await desk.complete(child) == "ok"
    assert (await desk.record("b")).state is State.COMPLETED


async def test_a_child_that_runs_again_is_awaited_again(desk: Desk) -> None:
    await waiting_parent(desk, "shop.b", fails=1)
    (child,) = await desk.claim()
    await desk.fail(child)
    (parent,) = await desk.claim()
    error = b',"error":{"type":"ChildFailed","message":"shop.b failed"}'
    await desk.transitions.fail(desk.keys, "a", parent.nonce, NO_MORE, error)
    assert (await desk.record("a")).state is State.FAILED
    assert await desk.transitions.reopen(desk.keys, "b") == "ok"
    record = await desk.record("a")
    assert (record.state, record.awaits, record.wanted) == (State.AWAITING, "join", 1)
    assert (await desk.history("a"))[-1].status == "reopened"
    (child,) = await desk.claim()
    assert child.key == "b"
    await desk.complete(child)
    (parent,) = await desk.claim()
    assert (parent.key, parent.number) == ("a", 3)


async def test_a_parent_that_went_on_keeps_the_end_it_saw(desk: Desk) -> None:
    await waiting_parent(desk, "shop.b")
    (child,) = await desk.claim()
    await desk.fail(child)
    (parent,) = await desk.claim()
    before = await children(desk, "a")
    await desk.transitions.reopen(desk.keys, "b")
    assert await children(desk, "a") == before
    (child,) = await desk.claim()
    await desk.complete(child)
    assert await children(desk, "a") == before
    assert await desk.complete(parent) == "ok"


async def test_a_revived_parent_revives_its_own_parent(desk: Desk) -> None:
    kurly = other(desk)
    held = await desk.start()
    await spawn(desk, held, "shop.b")
    (child,) = await desk.claim()
    await desk.store.command("HSET", desk.keys.record("a"), "marks", "parent=kurly.top")
    await desk.fail(child)
    error = b',"error":{"type":"ChildFailed","message":"shop.b failed"}'
    await desk.transitions.fail(desk.keys, "a", held.nonce, NO_MORE, error)
    await desk.transitions.reopen(desk.keys, "b")
    assert await outbox(desk) == ["arrive shop.a"]
    assert await outbox(kurly) == []


async def test_an_end_arrives_after_the_server_forgot_the_script(desk: Desk) -> None:
    await waiting_parent(desk, "kurly.b")
    await forget_scripts(desk.store)
    assert await arrive(desk, "a", "kurly.b") == "ok"
