"""Which web pages may send requests: a browser sends them for any page it shows, with the cookies that it has."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tailrace.gateway.problems import Code, problem
from tailrace.streams.errors import BadConfiguration

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}
EXPOSED: Final = "Location, Retry-After, ETag, Idempotency-Replayed"

_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")

ELSEWHERE: Final = problem(
    Code.OTHER_HOST,
    "without API keys this gateway serves IP addresses and local names only; set TAILRACE_API_KEYS to serve this host",
)
FOREIGN: Final = problem(Code.FOREIGN_ORIGIN, "a page of another origin may not do this")


def read_origins(words: Iterable[str]) -> frozenset[str]:
    """The allow-list of TAILRACE_CORS_ORIGINS."""
    for word in words:
        scheme, _, host = word.partition("://")
        if scheme.lower() not in {"http", "https"} or not host or not is_host(host.encode()):
            raise BadConfiguration(
                f"TAILRACE_CORS_ORIGINS: {word!r} is not an origin; write https://host or https://host:port"
            )
    return frozenset(word.lower() for word in words)


@lru_cache(maxsize=256)
def is_host(host: bytes) -> bool:
    """Whether this can be a name or an address with a port at all; old clients may send none."""
    return not host or _HOST.fullmatch(host) is not None


@lru_cache(maxsize=256)
def is_local_name(host: bytes) -> bool:
    """Whether the name in a Host header cannot be one that a stranger lets point to this machine.

    Such a name is in the public DNS, so it has a dot. An address is not looked up, and names without a dot are ours.
    """
    name = host.decode("latin-1").rstrip(".").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if ("." not in name and ":" not in name) or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_ours(headers: Sequence[tuple[bytes, bytes]], allowed: frozenset[str], *, cookie: bool) -> bool:
    """Whether a request comes from a page of our own, or of an allowed origin, or from no page at all.

    With a `cookie` it must say so, and an allowed origin is not enough where the browser knows better: those pages may
    act with a key, not with the cookie that a browser holds.
    """
    host = site = origin = ""
    for name, value in headers:
        if name == b"origin":
            origin = value.decode("latin-1").lower()
        elif name == b"sec-fetch-site":
            site = value.decode("latin-1").lower()
        elif name == b"host":
            host = value.decode("latin-1").lower()
    if origin in allowed and not (cookie and site):
        return True
    if site:
        return site == "same-origin" or (site == "none" and not cookie)
    if origin:
        # The scheme is not compared: a proxy may have taken the encryption off.
        return bool(host) and origin.partition("://")[2] == host
    return not cookie


class Strangers:
    """Without keys every caller may do everything, so pages of other origins must not reach the gateway."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self._hosts = {origin.partition("://")[2].encode() for origin in allowed}  # a proxy of ours passes them on

    def refusal(self, host: bytes, method: bytes, headers: Sequence[tuple[bytes, bytes]]) -> ASGIApp | None:
        """The refusal to answer with, or None."""
        if host and not is_local_name(host) and host.lower() not in self._hosts:
            return ELSEWHERE
        if method not in (b"GET", b"HEAD", b"OPTIONS") and not is_ours(headers, self._allowed, cookie=False):
            return FOREIGN
        return None


class Sharing:
    """Lets pages of allowed origins read our answers (CORS). Cookies are no part of it: they bring a key.

    This is not starlette's CORSMiddleware because that sends CORS headers to every origin, also to one that is not
    allowed, and answers preflights of unknown origins itself, in plain text, where ours go to the guard.
    """

    def __init__(self, app: ASGIApp, allowed: frozenset[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        allowed = origin.lower() in self._allowed
        if allowed and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            shared = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
            await Response(status_code=204, headers={**PREFLIGHT, **shared})(scope, receive, send)
            return

        async def share(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(raw=list(message["headers"]))
                answer.add_vary_header("Origin")
                if allowed:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = EXPOSED
                message = {**message, "headers": answer.raw}
            await send(message)

        await self._app(scope, receive, share)
