"""The guard in front of the application: which callers are let through, and to which routes.

It is there only when there are keys. It stands in front of everything, the short cut for histories too: a request
without a credential gets no further. The scope a route needs is checked at the route itself, so that the two cannot
disagree about which route a path means.

    no credential              public routes only
    a key                      the application over all platforms
    a key limited to some      the application over these: to it the others are not there
    a key with the scope read  the short cut for histories in front of that application
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.gateway.access.api_keys import CALLER, Key, Keys, bearer, known, unauthorized
from tailrace.gateway.access.limits import Limits
from tailrace.gateway.access.origins import SAFE, is_ours
from tailrace.gateway.access.tickets import Pouch, cookie_of
from tailrace.gateway.live.frames import HEADERS, store_away
from tailrace.gateway.live.job_stream import PATH as STREAM
from tailrace.gateway.problems import Code, Refusal, problem
from tailrace.gateway.replies import KNOWN, Interruption, answer_to
from tailrace.gateway.route_table import PUBLIC, TABLE, Endpoint, Open, Served
from tailrace.gateway.routes.events import PATH as HISTORY
from tailrace.streams.store.connection import Store

NO_LIMIT = nullcontext()

_TICKET = re.compile(rb"(?:^|&)ticket=")


class Application(NamedTuple):
    """The application over the platforms of a key."""

    whole: Starlette
    front: ASGIApp  # the same behind the short cut for histories, which checks no scope


class Guard:
    """Lets a request with a key, a ticket or a session through to as much as the key is good for."""

    def __init__(self, keys: Keys, store: Store, limits: Limits, allowed: frozenset[str]) -> None:
        self._keys = keys
        self._limits = limits
        self._allowed = allowed
        self._pouch = Pouch(store)
        self._public = pattern_of(said for said in TABLE.values() if said.scope is PUBLIC)
        self._streams = pattern_of(said for said in TABLE.values() if said.streams)
        self._of_history = TABLE[f"GET {HISTORY}{{job_id}}"].scope

    def stand_before(self, applications: Mapping[frozenset[str] | None, Application]) -> ASGIApp:
        """`applications`: by the platforms that a key is limited to; None: to none."""
        for application in applications.values():
            for route in application.whole.routes:
                assert isinstance(route, Served), f"{route} cannot be checked"
                route.app = self._checked(route)
        public = applications[None].whole

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or self._public.fullmatch(name_of(scope)):
                await public(scope, receive, send)
                return
            try:
                key = await self._caller(scope)
                self._limits.check(key.name)
            except Refusal as refusal:
                await refuse(refusal, scope, receive, send)
                return
            except KNOWN as error:  # the store does not answer: the owner of this ticket or session is not known
                await self._away(error, scope)(scope, receive, send)
                return
            whole, front = applications[key.platforms]
            scope[CALLER] = key
            with self._limits.request(key.name):
                await (front if self._reads(key) else whole)(scope, receive, send)

        return guarded

    def _checked(self, route: Served) -> ASGIApp:
        """A route behind the check of its scope."""
        app, need, streams = route.app, route.said.scope, route.said.streams

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            if need is PUBLIC:
                if scope["method"] not in SAFE and not is_ours(scope["headers"], self._allowed, cookie=False):
                    raise Refusal(Code.FOREIGN_ORIGIN, Code.FOREIGN_ORIGIN.when)
                await app(scope, receive, send)
                return
            key: Key | None = scope.get(CALLER)
            if key is None:
                raise unauthorized()
            if not isinstance(need, Open) and not key.may(need):
                raise Refusal(Code.SCOPE_MISSING, f"this key does not have the scope `{need}`")
            with self._limits.stream(key.name) if streams else NO_LIMIT:
                await app(scope, receive, send)

        return checked

    def _reads(self, key: Key) -> bool:
        return isinstance(self._of_history, Open) or key.may(self._of_history)

    def _away(self, error: Exception, scope: Scope) -> Response:
        """Not 503 for a stream: on that a browser's EventSource gives up for ever."""
        if self._streams.fullmatch(name_of(scope)):
            return Response(store_away(), 200, HEADERS)
        return answer_to(error)

    async def _caller(self, scope: Scope) -> Key:
        """The key of a request. Raises a `Refusal`, or a `StoreError`."""
        headers = scope["headers"]
        secret = bearer(headers)
        if secret is not None:
            return known(self._keys.find(secret))
        if scope["path"].startswith(STREAM) and scope["method"] in SAFE and _TICKET.search(scope["query_string"]):
            ticket = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("ticket", "")
            name = await self._pouch.redeem(ticket, scope["path"][len(STREAM) :])
            return known(self._keys.named(name or ""), "this ticket was used, has expired, or is for another job")
        session = cookie_of(headers)
        if session is None:
            raise unauthorized()
        name = await self._pouch.whose(session)
        key = known(self._keys.named(name or ""), "this session has ended; sign in again")
        if scope["method"] not in SAFE and not is_ours(headers, self._allowed, cookie=True):
            raise Refusal(Code.FOREIGN_ORIGIN, "with a cookie, only the gateway's own page may do this")
        return key


def name_of(scope: Scope) -> str:
    """The route that a path names, as far as the path alone shows it."""
    return f"{'GET' if scope['method'] == 'HEAD' else scope['method']} {scope['path']}"


def pattern_of(rows: Iterable[Endpoint]) -> re.Pattern[str]:
    paths = (f"{said.method} {compile_path(said.path)[0].pattern.strip('^$')}" for said in rows)
    return re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", path) for path in paths))


async def refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that may still be arriving: its body is thrown away, and read for a short time only."""
    brings_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
    headers = {**(refusal.headers or {}), **({"Connection": "close"} if brings_body else {})}
    answer = problem(refusal.code, refusal.detail, headers)
    await (Interruption(answer) if brings_body else answer)(scope, receive, send)
