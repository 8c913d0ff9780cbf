"""spawn: a running attempt brings jobs in line, each once, and only while it owns its job."""

import pytest

from tailrace.streams.flows.relay import Relay
from tailrace.streams.flows.spawning import SPAWNED, sent, spawning
from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched
from tests.support.flowing import child_of, children, ended, other, outbox, spawn


async def test_a_child_of_the_same_platform_stands_in_line_at_once(desk: Desk) -> None:
    held = await desk.start()
    assert await spawn(desk, held, "shop.b") == ["spawned"]
    record = await desk.record("b")
    assert (record.state, record.marks) == (State.WAITING, "parent=shop.a")
    assert await children(desk, "a") == {"shop.b": ""}
    (child,) = await desk.claim()
    assert (child.key, child.options) == ("b", b'{"parent":"shop.a"}')


async def test_a_child_of_another_platform_goes_to_the_outbox(desk: Desk) -> None:
    held = await desk.start()
    assert await spawn(desk, held, "kurly.b") == ["spawned"]
    assert await outbox(desk) == ["submit kurly.b"]
    assert await children(desk, "a") == {"kurly.b": ""}


async def test_the_answer_names_the_entry_of_the_outbox(desk: Desk) -> None:
    held = await desk.start()
    jobs = [child_of("kurly.b", b"[1]", order_key="o"), child_of("shop.c"), child_of("kurly.d", child=False)]
    (answers,) = await desk.transitions.run([(desk.keys, [spawning(desk.keys, "a", held.nonce, jobs)])])
    assert answers[1] == b"spawned"
    parcels = sent("shop.a", jobs, answers)
    read = await Relay(desk.transitions).read(desk.keys)
    assert [parcel.fields for parcel in parcels] == [
        {name: value for name, value in parcel.fields.items() if name in parcels[0].fields} for parcel in read
    ]
    assert [parcel[:4] for parcel in parcels] == [parcel[:4] for parcel in read]


async def test_what_is_noted_of_spawns_stays_small(desk: Desk) -> None:
    held = await desk.start()
    for number in range(3):
        await spawn(desk, held, f"kurly.c{number}", whole=f"{number} " + "x" * 3000)
    noted = await desk.store.command("HGET", desk.keys.steps("a"), SPAWNED)
    assert noted.decode().split() == ["0", "x" * 3000, "1", "x" * 3000], "a handler is asked again for the others"


async def test_a_repeated_spawn_brings_nothing_twice(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "shop.b", "kurly.c")
    async with untouched(desk.store):
        assert await spawn(desk, held, "shop.b", "kurly.c") == ["again", "again"]
    await desk.reclaim(held)
    (held,) = await desk.claim("bob")
    assert held.key == "a"
    assert await spawn(desk, held, child_of("shop.b", b"[1]"), "shop.d", "shop.d") == ["again", "spawned", "again"]


async def test_a_job_that_is_only_submitted_is_no_child(desk: Desk) -> None:
    held = await desk.start()
    jobs = [child_of(job, child=False, priority="high") for job in ("shop.b", "kurly.c")]
    assert await spawn(desk, held, *jobs) == ["spawned", "spawned"]
    assert await children(desk, "a") == {"shop.b": ".", "kurly.c": "."}
    assert (await desk.record("b")).marks is None
    (job,) = await desk.claim()
    await desk.complete(job)
    assert await children(desk, "a") == {"shop.b": ".", "kurly.c": "."}


async def test_options_of_a_child_stay_with_it(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, child_of("shop.b", attempts=7, order_key="o", priority="urgent"))
    record = await desk.record("b")
    assert (record.marks, record.band) == ("order=o parent=shop.a", "urgent")
    (child,) = await desk.claim()
    assert child.options == b'{"parent":"shop.a","attempts":7}'
    assert (await desk.claim_as("ann", [child.nonce]))[0].options == child.options, "and so in a repeated claim"


async def test_only_the_current_attempt_spawns(desk: Desk) -> None:
    old = await desk.start()
    await desk.reclaim(old)
    await desk.claim("bob")
    async with untouched(desk.store):
        for nonce in (old.nonce, NOBODY, ""):
            assert await spawn(desk, old, "shop.b", "kurly.c", nonce=nonce) == "lost"


async def test_an_attempt_that_is_asked_to_stop_spawns_nothing(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await spawn(desk, held, "shop.b") == "cancelled"


async def test_a_job_has_a_bounded_number_of_children(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.streams.flows.spawning.MOST_CHILDREN", 2)
    held = await desk.start()
    assert await spawn(desk, held, "shop.b", "shop.c") == ["spawned", "spawned"]
    async with untouched(desk.store):
        assert await spawn(desk, held, "shop.b", "shop.d") == "full"
        assert await spawn(desk, held, "shop.c", "shop.b") == ["again", "again"]


async def test_a_child_with_the_id_of_another_job_is_refused(desk: Desk) -> None:
    held = await desk.start()
    await desk.submit("b", args=b"[9]")
    async with untouched(desk.store):
        assert await spawn(desk, held, "shop.b") == ["conflict"]


async def test_a_child_that_had_ended_before_has_its_end_at_once(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "shop.b")
    (child,) = await desk.claim()
    await desk.complete(child, 3)
    await desk.store.command("DEL", desk.keys.children("a"))  # as if the parent were another job of the same id
    assert await spawn(desk, held, "shop.b") == ["spawned"]
    assert await children(desk, "a") == {"shop.b": ended(3).decode()}


@pytest.mark.parametrize("platform", ["shop", "kurly"])
@pytest.mark.parametrize("since", ["failed", "completed", "not kept", "running"])
async def test_a_retried_parent_asks_a_child_that_failed_how_it_is_now(desk: Desk, platform: str, since: str) -> None:
    there, child, relay = desk if platform == "shop" else other(desk), f"{platform}.b", Relay(desk.transitions)
    held = await desk.start()
    await spawn(desk, held, child)
    await relay.deliver(desk.keys)
    (below,) = await there.claim()
    await there.fail(below)
    await relay.deliver(there.keys)
    await desk.fail(held)
    assert await desk.transitions.reopen(desk.keys, "a") == "ok"
    (held,) = await desk.claim()
    if since in ("completed", "running"):  # it was retried while its parent ran, which keeps the end that it has seen
        await there.transitions.reopen(there.keys, "b")
        await relay.deliver(there.keys)
        (below,) = await there.claim()
        if since == "completed":
            await there.complete(below, 7)
            await relay.deliver(there.keys)
    elif since == "not kept":
        await there.transitions.drop(there.keys, "b")
    assert await spawn(desk, held, child) == ["spawned"]
    await relay.deliver(desk.keys)
    known = (await children(desk, "a"))[child]
    match since:
        case "failed":
            assert " failed " in known
        case "completed":
            assert '"result":7' in known
        case "not kept":
            assert [each.key for each in await there.claim()] == ["b"], "it runs again"
        case "running":
            assert known == ""
            await there.complete(below, 8)
            await relay.deliver(there.keys)
            assert '"result":8' in (await children(desk, "a"))[child]


async def test_it_is_noted_when_all_jobs_of_a_place_are_in_line(desk: Desk) -> None:
    held = await desk.start()
    await desk.submit("x", args=b"[9]")
    assert await spawn(desk, held, "shop.b", "shop.x", whole="first (2)") == ["spawned", "conflict"]
    for place in ("second (1)", "third (1)"):
        assert await spawn(desk, held, f"kurly.{place[:5]}", whole=place) == ["spawned"]
    noted = ("HGET", desk.keys.steps("a"), SPAWNED)
    assert await desk.store.command(*noted) == b"second (1)\nthird (1)\n"
    await desk.fail(held)
    await desk.transitions.reopen(desk.keys, "a")
    assert await desk.store.command(*noted) is None, "another life asks again"


async def test_a_child_that_failed_is_not_asked_again_in_the_same_life(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "shop.b")
    (below,) = await desk.claim()
    await desk.fail(below)
    await desk.reclaim(held)
    (held,) = await desk.claim()
    async with untouched(desk.store):
        assert await spawn(desk, held, "shop.b") == ["again"]


async def test_a_child_cannot_wait_behind_its_parent(desk: Desk) -> None:
    await desk.submit("a", order_key="o")
    (held,) = await desk.claim()
    async with untouched(desk.store):
        assert await spawn(desk, held, child_of("shop.b", order_key="o")) == ["order"]
    assert await spawn(desk, held, child_of("shop.c", order_key="other")) == ["spawned"]
    assert await spawn(desk, held, child_of("shop.d", order_key="o", child=False)) == ["spawned"]


async def test_a_corrupt_child_disturbs_no_other(desk: Desk) -> None:
    held = await desk.start()
    await desk.store.command("SET", desk.keys.record("b"), "x")
    assert await spawn(desk, held, "shop.b", "shop.c") == ["corrupt", "spawned"]
    assert await children(desk, "a") == {"shop.c": ""}


async def test_an_idle_consumer_is_called_for_a_child(desk: Desk) -> None:
    held = await desk.start()
    await desk.asleep("zoe")
    await spawn(desk, held, "shop.b")
    assert await desk.called() == ["zoe"]


async def test_a_child_is_spawned_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await spawn(desk, held, "shop.b") == ["spawned"]


async def test_the_end_of_a_child_on_another_platform_goes_to_its_outbox(desk: Desk) -> None:
    kurly = other(desk)
    await kurly.transitions.submit([(child_of("kurly.b").job, "x")])
    await desk.store.command("HSET", kurly.keys.record("b"), "marks", "parent=shop.a")
    (child,) = await kurly.claim()
    await kurly.complete(child)
    assert await outbox(kurly) == ["arrive kurly.b"]
