"""The guard at the door: which scope each route needs, and who is let through to it.

It is there only when there are keys. It stands in front of everything, the short cut for histories too: whoever has no
credential gets no further. What a credential is good for is checked at the route itself, so the two cannot disagree
about which route a path means. A key that is limited to platforms is served by an application that knows no others.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.gateway.access import api_keys as auth
from tailrace.gateway.access.api_keys import CALLER, Key, Keys
from tailrace.gateway.access.limits import Limits
from tailrace.gateway.access.origins import SAFE, is_ours
from tailrace.gateway.access.tickets import UNKNOWN_KEY, Pouch, bearer, cookie_of, unauthorized
from tailrace.gateway.live.frames import HEADERS, store_away
from tailrace.gateway.problems import Code, Refusal, problem
from tailrace.gateway.replies import KNOWN, Interruption, answer_to
from tailrace.streams.store.connection import Store


class Open(Enum):
    """Routes that no scope is needed for."""

    PUBLIC = "no key at all: it holds no data"
    ANY = "any key"


PUBLIC, ANY = Open.PUBLIC, Open.ANY
READ, SUBMIT, ACT, ADMIN = auth.Scope.READ, auth.Scope.SUBMIT, auth.Scope.ACT, auth.Scope.ADMIN

NEEDS: Final[Mapping[str, auth.Scope | Open]] = {
    "GET /": PUBLIC,
    "GET /jobs/{job_id}": PUBLIC,  # the page: the same for every job
    "GET /page/{name}": PUBLIC,
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /openapi.json": PUBLIC,  # the same for everybody: it names nothing of this deployment
    "POST /api/session": PUBLIC,  # brings its key in the body
    "GET /api/session": ANY,
    "DELETE /api/session": ANY,
    "POST /api/tickets": READ,
    "GET /metrics": READ,
    "POST /research/start": SUBMIT,
    "GET /research/stream/{job_id}": READ,
    "GET /research/history/{job_id}": READ,
    "GET /api/events": READ,
    "POST /api/jobs": SUBMIT,
    "POST /api/jobs/bulk": SUBMIT,
    "GET /api/jobs/{job_id}": READ,
    "GET /api/jobs/{job_id}/args": READ,
    "GET /api/jobs/{job_id}/steps": READ,
    "DELETE /api/jobs/{job_id}": ACT,
    "POST /api/jobs/{job_id}/cancel": ACT,
    "POST /api/jobs/{job_id}/retry": ACT,
    "POST /api/jobs/{job_id}/drop": ACT,
    "GET /api/store": READ,
    "GET /api/trends": READ,
    "GET /api/dead": READ,
    "GET /api/platforms": READ,
    "GET /api/platforms/{platform}": READ,
    "GET /api/platforms/{platform}/jobs": READ,
    "GET /api/platforms/{platform}/dead": READ,
    "POST /api/platforms/{platform}/replay": ACT,
    "POST /api/platforms/{platform}/drop": ACT,
    "POST /api/platforms/{platform}/pause": ACT,
    "POST /api/platforms/{platform}/resume": ACT,
    "GET /api/platforms/{platform}/schedules": READ,
    "POST /api/platforms/{platform}/schedules": ACT,
    "GET /api/platforms/{platform}/schedules/{name}": READ,
    "POST /api/platforms/{platform}/schedules/{name}": ACT,
    "DELETE /api/platforms/{platform}/schedules/{name}": ACT,
    "POST /api/platforms/{platform}/schedules/{name}/pause": ACT,
    "POST /api/platforms/{platform}/schedules/{name}/resume": ACT,
    "POST /api/plans": SUBMIT,
    "POST /api/materials/complete-upload": SUBMIT,
    "POST /api/v2/workflows/execute": SUBMIT,
    "GET /api/v2/jobs/running": READ,
    "GET /api/v2/workers/status": READ,
    "POST /api/v2/workers/{platform}/restart": ADMIN,
}
"""Every route. One that is missing here needs the scope admin, and a test says so."""

STREAM: Final = "/research/stream/"
STREAMS: Final = frozenset({"/research/stream/{job_id}", "/api/events"})

_PUBLIC: Final = re.compile(
    "|".join(
        f"{method} {compile_path(path)[0].pattern.strip('^$')}"
        for method, path in (route.split() for route, need in NEEDS.items() if need is PUBLIC)
    )
)
_TICKET = re.compile(rb"(?:^|&)ticket=")


class Checked:
    """A route behind the check of its scope."""

    def __init__(self, route: Route, limits: Limits) -> None:
        self._app = route.app
        self._path = route.path
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        need = NEEDS.get(f"{method_of(scope)} {self._path}", ADMIN)
        if need is PUBLIC:
            await self._app(scope, receive, send)
            return
        key: Key | None = scope.get(CALLER)
        if key is None:
            raise unauthorized()
        if isinstance(need, auth.Scope) and not key.may(need):
            raise Refusal(Code.SCOPE_MISSING, f"this key has not the scope `{need}`")
        if self._path not in STREAMS:
            await self._app(scope, receive, send)
            return
        with self._limits.stream(key.name):
            await self._app(scope, receive, send)


class Guard:
    """Lets through whoever shows a key, a ticket or a session, to as much as the key is good for."""

    def __init__(self, keys: Keys, store: Store, limits: Limits, allowed: frozenset[str]) -> None:
        self._keys = keys
        self._limits = limits
        self._allowed = allowed
        self._pouch = Pouch(store)

    def stand_before(self, app: Starlette, front: ASGIApp, narrowed: Mapping[frozenset[str], Starlette]) -> ASGIApp:
        """`front`: the application with its short cut, which checks no scope; `narrowed`: those of limited keys."""
        for each in (app, *narrowed.values()):
            for route in each.routes:
                assert isinstance(route, Route), f"{route} cannot be checked"
                route.app = Checked(route, self._limits)

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or is_public(scope):
                await app(scope, receive, send)
                return
            try:
                key = await self._caller(scope)
                self._limits.check(key.name)
            except Refusal as refusal:
                await refuse(refusal, scope, receive, send)
                return
            except KNOWN as error:  # the store is away: nobody can say whose ticket or session this is
                await away(error, scope)(scope, receive, send)
                return
            served: ASGIApp = front if key.may(READ) else app
            if key.platforms is not None:
                served = narrowed[key.platforms]
            scope[CALLER] = key
            with self._limits.request(key.name):
                await served(scope, receive, send)

        return guarded

    async def _caller(self, scope: Scope) -> Key:
        """Whose request this is. Raises a `Refusal`, or what the store has to say when it is away."""
        headers = scope["headers"]
        secret = bearer(headers)
        if secret is not None:
            return known(self._keys.find(secret))
        if scope["path"].startswith(STREAM) and scope["method"] in SAFE and _TICKET.search(scope["query_string"]):
            ticket = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("ticket", "")
            name = await self._pouch.redeem(ticket, scope["path"][len(STREAM) :])
            return known(self._keys.named(name or ""), "this ticket is used, too old, or of another job")
        session = cookie_of(headers)
        if session is None:
            raise unauthorized()
        name = await self._pouch.whose(session)
        key = known(self._keys.named(name or ""), "this session is over; sign in again")
        if scope["method"] not in SAFE and not is_ours(headers, self._allowed, cookie=True):
            raise Refusal(Code.FOREIGN_ORIGIN, "with a cookie, only our own page may do this")
        return key


def known(key: Key | None, detail: str = UNKNOWN_KEY) -> Key:
    if key is None:
        raise unauthorized(detail)
    return key


def method_of(scope: Scope) -> str:
    return "GET" if scope["method"] == "HEAD" else str(scope["method"])


def is_public(scope: Scope) -> bool:
    return _PUBLIC.fullmatch(f"{method_of(scope)} {scope['path']}") is not None


async def refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that may still be on its way: what comes of its body is not kept, and not read for long."""
    brings_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
    headers = {**(refusal.headers or {}), **({"Connection": "close"} if brings_body else {})}
    answer = problem(refusal.code, refusal.detail, headers)
    await (Interruption(answer) if brings_body else answer)(scope, receive, send)


def away(error: Exception, scope: Scope) -> Response:
    """Not 503 for a stream: on that a browser's EventSource gives up for ever."""
    if scope["path"].startswith(STREAM) or scope["path"] in STREAMS:
        return Response(store_away(), 200, HEADERS)
    return answer_to(error)
