"""What a request costs the store, in commands."""

import re

from tailrace.streams.store.connection import Store

TRIES = 3  # a gateway looks at the store by itself now and then: the least of several costs is what a request costs


async def commands(store: Store) -> int:
    """How many the server has carried out so far."""
    info = (await store.command("INFO", "stats")).decode()
    found = re.search(r"total_commands_processed:(\d+)", info)
    assert found
    return int(found[1])
