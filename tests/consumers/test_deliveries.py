"""What a dead consumer left in an outbox is delivered by the heart of another."""

from tailrace.consumers.heart.upkeep.deliveries import Deliverer
from tailrace.streams import Transitions
from tailrace.streams.states import State
from tests.consumers.conftest import Bench
from tests.support.builders import Desk
from tests.support.flowing import children, other, outbox, spawn


async def test_a_heart_delivers_what_was_there_at_its_look_before(bench: Bench) -> None:
    store = bench.store
    desk = Desk(store, "research")
    held = await desk.start("a")
    await spawn(desk, held, "kurly.b")
    role = Deliverer(Transitions(store), [desk.keys])
    await role.round()
    assert await outbox(desk) == ["submit kurly.b"], "its writer may be about to deliver it"
    await spawn(desk, held, "kurly.late")
    await role.round()
    assert await outbox(desk) == ["submit kurly.late"]
    await role.round()
    assert await outbox(desk) == []
    kurly = other(desk)
    assert (await kurly.record("b")).state is State.WAITING
    (child,) = await kurly.claim()
    await kurly.complete(child)
    home = Deliverer(Transitions(store), [kurly.keys])
    await home.round()
    await home.round()
    assert (await children(desk, "a"))["kurly.b"].split()[1] == "completed"
    assert await outbox(kurly) == []
