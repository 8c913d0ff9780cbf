"""Keys that belong to no platform: sessions and tickets of browsers, and open incidents of receivers of alerts.

Sessions and tickets are kept under the hash of the secret that the browser holds. Each change of an incident is one
command, and tells whether it was the first.
"""

from tailrace.streams.store.connection import Store


async def keep_ticket(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", store.keyspace.ticket(digest), text, "EX", seconds)


async def take_ticket(store: Store, digest: str) -> str | None:
    """The value of a ticket, which is removed by this."""
    return as_text(await store.command("GETDEL", store.keyspace.ticket(digest)))


async def keep_session(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", store.keyspace.session(digest), text, "EX", seconds)


async def read_session(store: Store, digest: str) -> str | None:
    return as_text(await store.command("GET", store.keyspace.session(digest)))


async def remove_session(store: Store, digest: str) -> None:
    await store.command("DEL", store.keyspace.session(digest))


def as_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")


async def read_incidents(store: Store, receiver: str) -> dict[str, int]:
    """Since when each is known, in ms."""
    flat = await store.command("HGETALL", store.keyspace.incidents(receiver))
    return {name.decode(): int(since) for name, since in zip(flat[::2], flat[1::2], strict=True)}


async def open_incident(store: Store, receiver: str, name: str, since_ms: int) -> bool:
    """Note an incident. Only one of several callers gets True."""
    return bool(await store.command("HSET", store.keyspace.incidents(receiver), name, since_ms) == 1)


async def close_incident(store: Store, receiver: str, name: str) -> bool:
    """Remove an incident that is over. Only one of several callers gets True."""
    return bool(await store.command("HDEL", store.keyspace.incidents(receiver), name) == 1)
