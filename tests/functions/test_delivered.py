"""delivered: what was delivered leaves the outbox, and an empty one leaves no key."""

from tailrace.streams.flows.relay import Relay
from tailrace.streams.operations import call
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import spawn


async def test_entries_leave_and_the_last_takes_the_key_along(desk: Desk) -> None:
    relay = Relay(desk.transitions)
    held = await desk.start()
    await spawn(desk, held, "kurly.b", "kurly.c", "kurly.d")
    one, two, three = [parcel.id for parcel in await relay.read(desk.keys)]
    assert await desk.transitions.one(desk.keys, call.delivered(entries=f"{one} {three}")) == 2
    assert [parcel.id for parcel in await relay.read(desk.keys)] == [two]
    async with untouched(desk.store):
        assert await desk.transitions.one(desk.keys, call.delivered(entries=one)) == 0
    assert await desk.transitions.one(desk.keys, call.delivered(entries=two)) == 1
    assert not await desk.store.command("EXISTS", desk.keys["outbox"])


async def test_entries_leave_after_the_server_forgot_the_script(desk: Desk) -> None:
    await forget_scripts(desk.store)
    assert await desk.transitions.one(desk.keys, call.delivered(entries="1-1")) == 0
