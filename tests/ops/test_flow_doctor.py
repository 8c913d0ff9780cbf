"""`doctor` and flows: each way in which one can hang, made by hand, is found and repaired."""

import argparse
from pathlib import Path

from tailrace.ops.doctor.doctor import examine
from tailrace.streams.flows.relay import Relay
from tailrace.streams.states import State
from tests.ops.commands import Examine
from tests.support.builders import Desk
from tests.support.flowing import child_of, children, other, outbox, spawn, wait, waiting_parent


async def test_jobs_that_await_what_may_come_are_fine(desk: Desk, troubles: Examine) -> None:
    await waiting_parent(desk, "ably.b", "kurly.c")
    await Relay(desk.transitions).deliver(desk.keys)
    held = await desk.start("s")
    await wait(desk, held, "signal", "~1", name="go", seconds=600)
    held = await desk.start("z")
    await wait(desk, held, "sleep", "~1", seconds=600)
    assert await troubles() == []


async def test_a_child_that_vanished_is_found_and_its_parent_goes_on(desk: Desk, troubles: Examine) -> None:
    await waiting_parent(desk, "kurly.c", "research.b")
    await Relay(desk.transitions).deliver(desk.keys)
    kurly = other(desk)
    for name in await desk.store.command("KEYS", f"{kurly.keys.prefix}*"):
        await desk.store.command("DEL", name)
    (found,) = await troubles()
    sentence = "it awaits 1 children whose ends never come, such as kurly.c, which is not kept"
    assert (found.job, found.says) == ("a", sentence)
    assert await troubles(repair=True) == []
    news = (await children(desk, "a"))["kurly.c"]
    assert '"type":"ChildLost"' in news
    (child,) = await desk.claim()
    await desk.complete(child)
    assert (await desk.record("a")).state is State.WAITING


async def test_an_end_that_never_arrived_is_brought(desk: Desk, troubles: Examine) -> None:
    kurly = other(desk)
    await waiting_parent(desk, "kurly.c")
    await Relay(desk.transitions).deliver(desk.keys)
    (child,) = await kurly.claim()
    await kurly.complete(child, 7)
    assert await troubles() == [], "its news are on the way"
    await desk.store.command("DEL", kurly.keys["outbox"])
    (found,) = await troubles()
    assert "kurly.c, which has ended, and its end did not arrive" in found.says
    assert await troubles(repair=True) == []
    assert (await desk.record("a")).state is State.WAITING
    assert '"result":7' in (await children(desk, "a"))["kurly.c"]


async def test_an_outbox_that_nobody_delivers_is_found_and_delivered(desk: Desk, troubles: Examine) -> None:
    await waiting_parent(desk, "kurly.c")
    (entry,) = await desk.store.command("XRANGE", desk.keys["outbox"], "-", "+")
    await desk.store.command("DEL", desk.keys["outbox"])
    await desk.store.command("XADD", desk.keys["outbox"], "1-1", *entry[1])
    (found,) = await troubles()
    assert found.says == "its outbox holds news that were not delivered for over 10 s"
    assert await troubles(repair=True) == []
    assert await outbox(desk) == []
    assert (await other(desk).record("c")).state is State.WAITING


async def test_a_count_that_is_wrong_lets_the_parent_look_again(desk: Desk, troubles: Examine) -> None:
    await waiting_parent(desk, "research.b")
    await desk.store.command("DEL", desk.keys.children("a"))
    (found,) = await troubles()
    assert found.says == "it awaits the ends of 1 children, but 0 have not ended"
    assert await troubles(repair=True) == []
    assert (await desk.record("a")).state is State.WAITING


async def test_a_job_that_no_list_names_or_no_alarm_wakes_is_put_right(desk: Desk, troubles: Examine) -> None:
    held = await desk.start("s")
    await wait(desk, held, "signal", "~1", name="go", seconds=600)
    await desk.store.command("DEL", desk.keys["awaiting"], desk.keys["alarms"])
    assert [found.says for found in await troubles()] == ["it awaits something, but no list names it"]
    await desk.store.command("ZADD", desk.keys["awaiting"], 1, "s")
    says = "it awaits something until a time, but no alarm is set for it"
    assert [found.says for found in await troubles()] == [says]
    assert await troubles(repair=True) == []
    assert (await desk.record("s")).state is State.WAITING


async def test_a_signal_that_woke_nobody_is_found(desk: Desk, troubles: Examine) -> None:
    held = await desk.start("s")
    await wait(desk, held, "signal", "~1", name="go")
    await desk.store.command("HSET", desk.keys.signals("s"), "go", "1")
    (found,) = await troubles()
    assert found.says == "it awaits the signal go, which is there"
    assert await troubles(repair=True) == []
    assert (await desk.record("s")).state is State.WAITING


async def test_a_child_whose_parent_is_gone_is_told_as_a_note_and_let_go(
    desk: Desk, troubles: Examine, tmp_path: Path
) -> None:
    held = await desk.start("a")
    await spawn(desk, held, "research.b", child_of("research.c", child=False))
    await desk.complete(held)
    await desk.store.command("DEL", desk.keys.record("a"), desk.keys.log("a"))
    await desk.store.command("DEL", desk.keys["ended_completed"])
    assert await troubles() == []
    found = await examine(argparse.Namespace(data=tmp_path, repair=False, json=True))
    (note,) = [each for each in found if "is gone" in each.says]
    assert (note.job, note.says) == ("b", "its parent research.a is gone: nothing awaits its end")
    assert "doctor --repair" in note.next
    found = await examine(argparse.Namespace(data=tmp_path, repair=True, json=True))
    assert [each.level for each in found if "is gone" in each.says] == ["repaired"]
    assert (await desk.record("b")).marks is None
    assert [held.key for held in await desk.claim(slots=2)] == ["b", "c"], "it is still there, and runs"


async def test_consumers_put_a_forgotten_one_right_by_themselves(desk: Desk) -> None:
    """`mend`, which hearts run: what is there although its job still awaits it."""
    await waiting_parent(desk, "kurly.b")
    held = await desk.start("s")
    await wait(desk, held, "signal", "~1", name="go", seconds=600)
    await desk.store.command("DEL", desk.keys["awaiting"], desk.keys["alarms"])
    await desk.store.command("HSET", desk.keys.signals("s"), "go", "1")
    (swept,) = await desk.transitions.mend([(desk.keys, "")])
    assert sorted(swept.mended) == ["a", "s"]
    assert ((await desk.record("a")).state, (await desk.record("s")).state) == (State.AWAITING, State.WAITING)
