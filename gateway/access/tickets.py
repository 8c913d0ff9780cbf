"""Credentials of browsers, instead of a key: a ticket for one stream of one job, or the cookie of a session.

Both are random and live in the store under their hash, so every gateway honours them, and a ticket only once.
"""

import hashlib
import re
import secrets
from typing import Final

from tailrace.gateway.access.api_keys import Key
from tailrace.streams.store.connection import Store
from tailrace.streams.store.shared_keys import keep_session, keep_ticket, read_session, remove_session, take_ticket

TICKET_SECONDS: Final = 60
SESSION_SECONDS: Final = 12 * 60 * 60
COOKIE: Final = "tailrace_session"

TICKET_MARK: Final = "trt_"
SESSION_MARK: Final = "trs_"

_TICKET = re.compile(TICKET_MARK + r"[A-Za-z0-9_-]{32}")
_SESSION = re.compile(SESSION_MARK + r"[A-Za-z0-9_-]{43}")


class Pouch:
    """The tickets and sessions of all gateways, as the store keeps them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def issue(self, job_id: str, key: Key | None) -> str:
        """A ticket for one stream of this job, counted for this key."""
        ticket = TICKET_MARK + secrets.token_urlsafe(24)
        held = f"{key.name if key else ''} {job_id}"
        await keep_ticket(self._store, hashed(ticket), held, TICKET_SECONDS)
        return ticket

    async def redeem(self, ticket: str, job_id: str) -> str | None:
        """The name of the key that it counts for. In any case the ticket is used up."""
        if not _TICKET.fullmatch(ticket):  # not a ticket of ours: the store need not be asked
            return None
        held = await take_ticket(self._store, hashed(ticket)) or ""
        name, _, wanted = held.partition(" ")
        return name if wanted == job_id else None

    async def open(self, key: Key) -> str:
        """A session for this key."""
        session = SESSION_MARK + secrets.token_urlsafe(32)
        await keep_session(self._store, hashed(session), key.name, SESSION_SECONDS)
        return session

    async def whose(self, session: str) -> str | None:
        """The name of the key of a session."""
        if not _SESSION.fullmatch(session):
            return None
        return await read_session(self._store, hashed(session))

    async def close(self, session: str) -> None:
        await remove_session(self._store, hashed(session))


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def cookie_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Our cookie among all that a browser holds for this host; others may have any form."""
    for name, value in headers:
        if name == b"cookie":
            for part in value.split(b";"):
                called, _, held = part.strip().partition(b"=")
                if called == COOKIE.encode():
                    return held.decode("latin-1")
    return None
