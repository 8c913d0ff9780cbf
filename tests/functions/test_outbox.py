"""outbox: what is to be delivered is seen in parts, oldest first."""

from tailrace.streams.flows.relay import Relay
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import child_of, spawn


async def test_it_is_seen_in_parts(desk: Desk) -> None:
    relay = Relay(desk.transitions)
    held = await desk.start()
    await spawn(desk, held, *(f"kurly.c{number}" for number in range(5)))
    async with untouched(desk.store):
        first = await relay.read(desk.keys, most=3)
        rest = await relay.read(desk.keys, first[-1].id, most=3)
    assert [parcel.child for parcel in (*first, *rest)] == [f"kurly.c{number}" for number in range(5)]
    assert await relay.read(desk.keys, rest[-1].id) == []


async def test_large_entries_come_in_smaller_parts(desk: Desk) -> None:
    held = await desk.start()
    for number in range(6):
        await spawn(desk, held, child_of(f"kurly.c{number}", b'"%b"' % (b"x" * 250_000)))
    assert len(await Relay(desk.transitions).read(desk.keys)) == 5


async def test_it_is_seen_after_the_server_forgot_the_script(desk: Desk) -> None:
    await forget_scripts(desk.store)
    assert await Relay(desk.transitions).read(desk.keys) == []
