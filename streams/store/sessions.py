"""Tickets and sessions of browsers: what each stands for, under the hash of the secret that the browser holds."""

from tailrace.streams.store.connection import Store


async def keep_ticket(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", store.keyspace.ticket(digest), text, "EX", seconds)


async def take_ticket(store: Store, digest: str) -> str | None:
    """What a ticket stands for. It is gone afterwards."""
    return as_text(await store.command("GETDEL", store.keyspace.ticket(digest)))


async def keep_session(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", store.keyspace.session(digest), text, "EX", seconds)


async def read_session(store: Store, digest: str) -> str | None:
    return as_text(await store.command("GET", store.keyspace.session(digest)))


async def remove_session(store: Store, digest: str) -> None:
    await store.command("DEL", store.keyspace.session(digest))


def as_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
