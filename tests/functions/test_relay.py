"""The relay delivers what outboxes hold, once for all that can see it, whoever dies meanwhile."""

import anyio
import pytest

from tailrace.streams.errors import StoreFull
from tailrace.streams.flows.relay import Relay
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import call
from tailrace.streams.states import State
from tests.support.builders import Desk, untouched
from tests.support.flowing import arrive, child_of, children, ended, join, other, outbox, spawn, waiting_parent


@pytest.fixture
def relay(desk: Desk) -> Relay:
    return Relay(desk.transitions)


async def test_a_child_goes_to_its_platform_and_its_end_comes_back(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.b")
    assert await relay.deliver(desk.keys) == 1
    (child,) = await kurly.claim()
    await kurly.complete(child, {"pages": 3})
    assert await relay.deliver(kurly.keys) == 1
    (parent,) = await desk.claim()
    assert await join(desk, parent, "kurly.b", number="2") == [ended({"pages": 3}).decode()]
    for keys in (desk.keys, kurly.keys):
        assert not await desk.store.command("EXISTS", keys["outbox"])


async def test_who_ended_a_child_knows_the_news_without_a_look_at_the_outbox(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.b")
    await relay.deliver(desk.keys)
    (child,) = await kurly.claim()
    event = kurly.end_event(child, result=[1])
    answer = await kurly.transitions.complete(kurly.keys, child.key, child.nonce, event)
    (parcel,) = await relay.read(kurly.keys)
    assert answer == f"sent {parcel.id}"
    assert (parcel.action, parcel.parent, parcel.child) == (b"arrive", "shop.a", "kurly.b")
    assert parcel.fields[b"event"] == event
    assert await relay.carry([parcel]) == [parcel.id]
    await relay.remove(kurly.keys, [parcel.id])
    assert await outbox(kurly) == []
    assert (await desk.record("a")).state is State.WAITING


async def test_two_relays_deliver_nothing_twice(desk: Desk, relay: Relay) -> None:
    ids = [f"kurly.c{number}" for number in range(30)]
    kurly = other(desk)
    await waiting_parent(desk, *ids)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(relay.deliver, desk.keys)
    claims = await kurly.claim(slots=100)
    assert len(claims) == 30
    for child in claims:
        await kurly.complete(child)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(relay.deliver, kurly.keys)
    assert [claim.number for claim in await desk.claim(slots=100)] == [2]


async def test_what_was_delivered_and_not_removed_is_delivered_again_without_a_trace(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.b")
    (parcel,) = await relay.read(desk.keys)
    await relay.carry([parcel])
    assert await outbox(desk) == ["submit kurly.b"], "its relay died before it could remove it"
    async with untouched(desk.store):
        await relay.carry([parcel])
    (child,) = await kurly.claim()
    await kurly.complete(child)
    assert await relay.deliver(desk.keys) == 1
    assert (await desk.record("a")).state is State.WAITING, "one that has ended by now brings its end along"


async def test_a_late_entry_of_a_child_that_is_not_kept_any_more_does_not_run_it_again(
    desk: Desk, relay: Relay
) -> None:
    await waiting_parent(desk, "kurly.b")
    (entry,) = await desk.store.command("XRANGE", desk.keys["outbox"], "-", "+")
    await relay.deliver(desk.keys)
    await arrive(desk, "a", "kurly.b")
    await desk.store.command("DEL", other(desk).keys.record("b"))
    await desk.store.command("XADD", desk.keys["outbox"], "1-1", *entry[1])
    assert await relay.deliver(desk.keys) == 1
    assert not await desk.store.command("EXISTS", other(desk).keys.record("b"))


async def test_only_what_was_there_at_a_look_is_delivered(desk: Desk, relay: Relay) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c")
    first, _ = await relay.read(desk.keys)
    assert await relay.deliver(desk.keys, up_to=first.id) == 1
    assert await outbox(desk) == ["submit kurly.c"]


async def test_a_child_that_cannot_be_accepted_has_failed(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await kurly.submit("b", args=b"[9]")
    await waiting_parent(desk, "kurly.b")
    await relay.deliver(desk.keys)
    news = (await children(desk, "a"))["kurly.b"]
    assert news.startswith('~ failed ~ null,"error":{"type":"ChildRefused"')
    assert (await desk.record("a")).state is State.WAITING


async def test_a_full_store_keeps_the_outbox(desk: Desk, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    await waiting_parent(desk, "kurly.b")
    await desk.cancel("a")
    run = desk.transitions.run

    async def full(sheets, **other):  # type: ignore[no-untyped-def]
        if sheets[0][1][0].name == "submit":
            raise StoreFull("no memory")
        return await run(sheets, **other)

    with monkeypatch.context() as patch:
        patch.setattr(desk.transitions, "run", full)
        assert await relay.deliver(desk.keys) == 0
        assert await outbox(desk) == ["submit kurly.b", "cancel shop.a"], "nothing overtakes a submission"
    assert await relay.deliver(desk.keys) == 2 + 1, "the end of the child is delivered, too"
    assert (await other(desk).record("b")).state is State.CANCELLED


async def test_a_cancelled_parent_takes_its_children_and_theirs_along(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.b", "shop.c", "kurly.d")
    await relay.deliver(desk.keys)
    (held,) = await kurly.claim()
    await spawn(kurly, held, "shop.e", "ably.f")
    await relay.deliver(kurly.keys)
    await join(kurly, held, "shop.e", "ably.f")
    await kurly.transitions.one(
        kurly.keys,
        call.wait(
            kurly.keys,
            key="b",
            nonce=held.nonce,
            max_starts=100,
            awaits="join",
            place="1",
            name="",
            delay_ms="",
            fails=0,
            order="block",
        ),
    )
    assert await desk.cancel("a") == "ok"
    await relay.deliver(desk.keys)
    states = [(await each.record(key)).state for each, key in ((desk, "c"), (kurly, "b"), (kurly, "d"), (desk, "e"))]
    assert states == [State.CANCELLED] * 4
    assert (await other(desk, "ably").record("f")).state is State.CANCELLED
    assert (await kurly.history("b"))[-1].reason == "its parent shop.a was cancelled"


async def test_an_entry_that_nobody_here_wrote_is_removed(desk: Desk, relay: Relay) -> None:
    await desk.store.command("XADD", desk.keys["outbox"], "*", "do", "arrive", "parent", "x")
    await desk.store.command("XADD", desk.keys["outbox"], "*", "hello", "world")
    assert await relay.deliver(desk.keys) == 2


async def test_a_parent_with_corrupt_keys_keeps_its_news(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.b")
    await relay.deliver(desk.keys)
    (child,) = await kurly.claim()
    await kurly.complete(child)
    await desk.store.command("RENAME", desk.keys.children("a"), desk.keys.children("aside"))
    await desk.store.command("SET", desk.keys.children("a"), "x")
    assert await relay.deliver(kurly.keys) == 0
    await desk.store.command("RENAME", desk.keys.children("aside"), desk.keys.children("a"))
    assert await relay.deliver(kurly.keys) == 1
    assert (await desk.record("a")).state is State.WAITING


async def test_news_for_a_parent_that_is_gone_leave_the_outbox(desk: Desk, relay: Relay) -> None:
    kurly = other(desk)
    await kurly.transitions.submit([(child_of("kurly.b").job, "x")])
    await desk.store.command("HSET", kurly.keys.record("b"), "marks", "parent=shop.gone")
    (child,) = await kurly.claim()
    await kurly.complete(child)
    assert await relay.deliver(kurly.keys) == 1
    assert not await desk.store.command("EXISTS", PlatformKeys("shop").children("gone"))
