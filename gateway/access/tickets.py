"""What a browser shows instead of a key: a ticket for one look at one job, or the cookie of somebody who signed in.

Both are random and live in the store under their hash, so every gateway honours them, and a ticket only once.
"""

import hashlib
import re
import secrets
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.api_keys import CALLER, Key, Keys, Scope
from tailrace.gateway.access.origins import FOREIGN, is_ours
from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import reply
from tailrace.gateway.routes.bodies import Body, JobId, Nothing, read_body
from tailrace.gateway.routes.jobs import Jobs
from tailrace.producers.kinds import Kinds
from tailrace.streams.errors import JobNotFound
from tailrace.streams.replies import is_kept
from tailrace.streams.sessions import keep_session, keep_ticket, read_session, remove_session, take_ticket
from tailrace.streams.store.connection import Store

TICKET_SECONDS: Final = 60
SESSION_SECONDS: Final = 12 * 60 * 60
SESSION_BYTES: Final = 4096  # of a body that anybody may send: ten thousand of them must find room
COOKIE: Final = "tailrace_session"
UNKNOWN_KEY: Final = "this key is not known here"

TICKET_MARK: Final = "trt_"
SESSION_MARK: Final = "trs_"

_TICKET = re.compile(TICKET_MARK + r"[A-Za-z0-9_-]{32}")
_SESSION = re.compile(SESSION_MARK + r"[A-Za-z0-9_-]{43}")


class TicketBody(Body, frozen=True):
    jobId: JobId


class SessionBody(Body, frozen=True):
    key: str | None = None


class Pouch:
    """The tickets and sessions of all gateways, as the store keeps them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def issue(self, job_id: str, key: Key | None) -> str:
        """A ticket for one look at this job, paid by this key."""
        ticket = TICKET_MARK + secrets.token_urlsafe(24)
        held = f"{key.name if key else ''} {job_id}"
        await keep_ticket(self._store, hashed(ticket), held, TICKET_SECONDS)
        return ticket

    async def redeem(self, ticket: str, job_id: str) -> str | None:
        """The name of the key that paid. Whatever the answer is, the ticket is gone."""
        if not _TICKET.fullmatch(ticket):  # the store is not asked for what was never given out
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


class Tickets:
    """The route that hands out tickets."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
        self._pouch = Pouch(store)

    async def issue(self, request: Request) -> Response:
        body = await read_body(request, TicketBody)
        job = self._jobs.find(body.jobId)
        if job is None or not await is_kept(self._store, *job):
            raise JobNotFound(body.jobId[:100])
        ticket = await self._pouch.issue(body.jobId, request.scope.get(CALLER))
        return reply({"ticket": ticket, "expiresIn": TICKET_SECONDS})


class Sessions:
    """The routes of somebody at the page: sign in, who am I, sign out."""

    def __init__(self, store: Store, keys: Keys, allowed: frozenset[str], kinds: Kinds) -> None:
        self._keys = keys
        self._kinds = kinds
        self._allowed = allowed
        self._pouch = Pouch(store)

    async def open(self, request: Request) -> Response:
        """Take a key, from the body or as any request brings it, and give a cookie for it."""
        if not is_ours(request.scope["headers"], self._allowed, cookie=False):
            return FOREIGN
        body = await read_body(request, SessionBody, SESSION_BYTES)
        if not self._keys:
            return reply(self._told(None))
        secret = bearer(request.scope["headers"]) if body.key is None else body.key.encode(errors="replace")
        key = self._keys.find(secret) if secret else None
        if key is None:
            raise unauthorized(UNKNOWN_KEY) if secret else unauthorized()
        if before := cookie_of(request.scope["headers"]):
            await self._pouch.close(before)  # who signs in again leaves nothing open behind
        cookie = f"{COOKIE}={await self._pouch.open(key)}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
        # We may stand behind a proxy that speaks TLS for us; the browser knows, and names its origin.
        secure = request.headers.get("origin", "").startswith("https://")
        return reply(self._told(key), headers={"Set-Cookie": cookie + "; Secure" * secure})

    async def show(self, request: Request) -> Response:
        return reply(self._told(request.scope.get(CALLER)))

    async def close(self, request: Request) -> Response:
        await read_body(request, Nothing)
        if session := cookie_of(request.scope["headers"]):
            await self._pouch.close(session)
        gone = f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        return Response(status_code=204, headers={"Set-Cookie": gone, "Cache-Control": "no-store"})

    def _told(self, key: Key | None) -> dict[str, Any]:
        """What the caller may do, and which built-in kinds this gateway accepts; without keys the caller may do all."""
        scopes = list(Scope) if key is None else [scope for scope in Scope if key.may(scope)]
        platforms = sorted(key.platforms) if key and key.platforms is not None else None
        name = key.name if key else None
        return {"data": {"key": name, "scopes": scopes, "platforms": platforms, "kinds": self._kinds.built_in}}


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def bearer(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """What the header `Authorization` brings; None: there is no such header, empty: it brings nothing we know."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            return secret.strip() if scheme.lower() == b"bearer" else b""
    return None


def cookie_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Our cookie among all that a browser holds for this host; those of others may be written in any way."""
    for name, value in headers:
        if name == b"cookie":
            for part in value.split(b";"):
                called, _, held = part.strip().partition(b"=")
                if called == COOKIE.encode():
                    return held.decode("latin-1")
    return None


def unauthorized(detail: str = "a key is needed, and none that is known came with this request") -> Refusal:
    return Refusal(Code.UNAUTHORIZED, detail, {"WWW-Authenticate": "Bearer"})
