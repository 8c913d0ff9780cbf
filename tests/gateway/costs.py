"""What a request costs the store, in commands."""

import re
from collections.abc import Awaitable, Callable

from tailrace.streams.store.connection import Store

TRIES = 3  # a gateway looks at the store by itself now and then: the least of several costs is what a request costs


async def commands(store: Store) -> int:
    """How many the server has carried out so far."""
    return (await counted(store))[0]


async def counted(store: Store) -> tuple[int, int]:
    """How many commands the server has carried out so far, and how many bytes it has answered."""
    info = (await store.command("INFO", "stats")).decode()
    found = re.search(r"total_commands_processed:(\d+)(?s:.*)total_net_output_bytes:(\d+)", info)
    assert found
    return int(found[1]), int(found[2])


async def store_work(store: Store, work: Callable[[], Awaitable[None]]) -> tuple[int, int]:
    """Commands and bytes of some work: the least of several tries, since gateways of other tests look now and then."""
    costs = []
    for _ in range(TRIES):
        before = await counted(store)
        await work()
        costs.append([after - first for first, after in zip(before, await counted(store), strict=True)])
    least = [min(column) for column in zip(*costs, strict=True)]
    return least[0], least[1]
