"""Which incidents a receiver of alerts was told of. Each change is one command, and tells whether it was the first."""

from tailrace.streams.store.connection import Store


async def read_incidents(store: Store, receiver: str) -> dict[str, int]:
    """Since when each is known, in ms."""
    flat = await store.command("HGETALL", store.keyspace.incidents(receiver))
    return {name.decode(): int(since) for name, since in zip(flat[::2], flat[1::2], strict=True)}


async def open_incident(store: Store, receiver: str, name: str, since_ms: int) -> bool:
    """Note an incident. Only one of several callers gets True."""
    return bool(await store.command("HSET", store.keyspace.incidents(receiver), name, since_ms) == 1)


async def close_incident(store: Store, receiver: str, name: str) -> bool:
    """It is over. Only one of several callers gets True."""
    return bool(await store.command("HDEL", store.keyspace.incidents(receiver), name) == 1)
