"""Bells: what a consumer does that cannot hear whether it is called."""

import asyncio

from tailrace.consumers.bells import Bells
from tailrace.streams.store.connection import Store


async def test_a_bell_that_cannot_be_heard_counts_as_rung_at_growing_intervals(valkey_url: str) -> None:
    """The server answers, and refuses to listen: the key is corrupt, or the user may not."""
    rung = 0

    def ring() -> None:
        nonlocal rung
        rung += 1

    async with Store(valkey_url) as store:
        await store.command("SET", "bell", "corrupt")
        listening = asyncio.create_task(Bells(store, {"bell": ring}).run())
        await asyncio.sleep(1.5)  # as long as five pauses that double
        listening.cancel()
        await asyncio.wait([listening])
    assert 3 <= rung <= 6
