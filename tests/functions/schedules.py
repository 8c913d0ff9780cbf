"""Two definitions of one schedule, and what the store keeps of it."""

from tests.support.builders import Desk

ONE, OTHER = b'{"name":"n"}', b'{"name":"n","kind":"k"}'


async def kept(desk: Desk) -> tuple[bytes | None, bytes | None]:
    """The definition and the tick of the schedule `n`."""
    definition, tick = await desk.store.commands(
        [("HGET", desk.keys["schedules"], "n"), ("ZSCORE", desk.keys["ticks"], "n")]
    )
    return definition, tick
