"""Bells: what a consumer does that cannot hear whether it is called."""

import asyncio
from itertools import pairwise

from tailrace.consumers.bells import Bells
from tailrace.streams.store.commit import FIRST_PAUSE
from tailrace.streams.store.connection import Store
from tests.support.eventually import eventually


async def test_a_bell_that_cannot_be_heard_counts_as_rung_at_growing_intervals(valkey_url: str) -> None:
    """The server answers, and refuses to listen: the key is corrupt, or the user may not."""
    rung: list[float] = []
    loop = asyncio.get_running_loop()

    async def often() -> bool:
        return len(rung) >= 5

    async with Store(valkey_url) as store:
        await store.command("SET", "bell", "corrupt")
        listening = asyncio.create_task(Bells(store, {"bell": lambda: rung.append(loop.time())}).run())
        await eventually("it counts as rung", often)
        listening.cancel()
        await asyncio.wait([listening])
    pauses = [later - earlier for earlier, later in pairwise(rung)]
    assert all(pause > 0.99 * FIRST_PAUSE * 2**number for number, pause in enumerate(pauses, 1))
