"""Tickets and sessions of browsers: what each stands for, under the hash of the secret that the browser holds."""

from tailrace.streams.keys import session_key, ticket_key
from tailrace.streams.store.connection import Store


async def keep_ticket(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", ticket_key(digest), text, "EX", seconds)


async def take_ticket(store: Store, digest: str) -> str | None:
    """What a ticket stands for. It is gone afterwards."""
    return as_text(await store.command("GETDEL", ticket_key(digest)))


async def keep_session(store: Store, digest: str, text: str, seconds: int) -> None:
    await store.command("SET", session_key(digest), text, "EX", seconds)


async def read_session(store: Store, digest: str) -> str | None:
    return as_text(await store.command("GET", session_key(digest)))


async def remove_session(store: Store, digest: str) -> None:
    await store.command("DEL", session_key(digest))


def as_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
