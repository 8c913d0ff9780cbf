"""Sessions: sign in, sign out, what the caller may do; and tickets for streams in a browser."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.api_keys import CALLER, Key, Scope, bearer, known, unauthorized
from tailrace.gateway.access.tickets import (
    COOKIE,
    SESSION_SECONDS,
    TICKET_SECONDS,
    cookie_of,
)
from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import Body, Nothing
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import MOUNTED_AT
from tailrace.gateway.route_table import ANY, NO_CONTENT, PUBLIC, READ, Answer, Reply, group, ok
from tailrace.streams.errors import JobNotFound
from tailrace.streams.replies import is_kept
from tailrace.streams.words import Count, JobId, PlatformName, Word

route = group("session")

SESSION_BYTES = 4096  # of a body that needs no key: ten thousand of them must fit into memory


class TicketBody(Body, frozen=True):
    jobId: JobId


class Ticket(Struct, frozen=True):
    """Opens one stream of one job, in its query; valid for `expiresIn` seconds."""

    ticket: str
    expiresIn: Count


class SessionBody(Body, frozen=True):
    key: str | None = None


class Caller(Struct, frozen=True):
    """The rights of the caller. `key` is the public name of its key, null without keys; `platforms` null means all.

    `kinds`: the built-in kinds that this gateway accepts. It does not know the kinds of your own handlers.
    """

    key: str | None
    scopes: list[Scope]
    platforms: list[PlatformName] | None
    kinds: list[Word]


@route(
    "POST",
    "/api/tickets",
    READ,
    ok("Valid once, within a minute, as `?ticket=` of the job's stream.", Ticket, None),
    examples=({"jobId": "research.tides-1"},),
    refuses=(Code.JOB_NOT_FOUND, Code.STORE_FULL),
)
async def issue_ticket(backend: Backend, request: Request, body: TicketBody) -> Ticket:
    """A ticket for the stream of one job: an EventSource sends no headers."""
    keys, key = backend.reach.job(body.jobId)
    if not await is_kept(backend.store, keys, key):
        raise JobNotFound(body.jobId)
    return Ticket(await backend.pouch.issue(body.jobId, request.scope.get(CALLER)), TICKET_SECONDS)


@route(
    "POST",
    "/api/session",
    PUBLIC,
    ok("Signed in; without keys on this gateway there is no cookie.", Caller, "data", "Set-Cookie"),
    most=SESSION_BYTES,
    examples=({},),
    refuses=(Code.UNAUTHORIZED,),
)
async def sign_in(backend: Backend, request: Request, body: SessionBody) -> Reply:
    """A cookie for a key.

    The key comes in the body or in the header. The cookie is valid for 12 hours.
    """
    if not backend.settings.keys:
        return Reply(_told(backend, None))
    secret = bearer(request.scope["headers"]) if body.key is None else body.key.encode(errors="replace")
    if not secret:
        raise unauthorized()
    key = known(backend.settings.keys.find(secret))
    if before := cookie_of(request.scope["headers"]):
        await backend.pouch.close(before)  # signing in again ends the earlier session
    session = await backend.pouch.open(key)
    cookie = f"{COOKIE}={session}; {cookie_path()}; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
    # We may stand behind a proxy that speaks TLS for us; the browser knows, and names its origin.
    secure = request.headers.get("origin", "").startswith("https://")
    return Reply(_told(backend, key), headers={"Set-Cookie": cookie + "; Secure" * secure})


@route("GET", "/api/session", ANY, ok("What it may do.", Caller))
async def who_am_i(backend: Backend, request: Request) -> Caller:
    """The rights of the caller."""
    return _told(backend, request.scope.get(CALLER))


@route("DELETE", "/api/session", ANY, {204: Answer(NO_CONTENT, media=(), headers=("Set-Cookie",))})
async def sign_out(backend: Backend, request: Request, _: Nothing) -> Response:
    """Sign out, on every gateway."""
    if session := cookie_of(request.scope["headers"]):
        await backend.pouch.close(session)
    gone = f"{COOKIE}=; {cookie_path()}; Max-Age=0; HttpOnly; SameSite=Strict"
    return Response(status_code=204, headers={"Set-Cookie": gone, "Cache-Control": "no-store"})


def cookie_path() -> str:
    return f"Path={MOUNTED_AT.get() or '/'}"


def _told(backend: Backend, key: Key | None) -> Caller:
    """The rights of the caller, all without keys, and the built-in kinds that this gateway accepts."""
    scopes = list(Scope) if key is None else [scope for scope in Scope if key.may(scope)]
    platforms = sorted(key.platforms) if key and key.platforms is not None else None
    return Caller(key.name if key else None, scopes, platforms, backend.settings.kinds.built_in)
