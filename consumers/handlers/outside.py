"""Requests to servers outside. A redirect is not followed: what we send, credentials too, is for that server alone."""

from http.client import HTTPResponse
from typing import IO, Any, NoReturn
from urllib.request import HTTPRedirectHandler, Request, build_opener

TIMEOUT_SECONDS = 60


class Moved(Exception):
    """The server points to another address."""


class Stay(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], *_: Any) -> NoReturn:
        fp.close()
        raise Moved


def request(address: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> HTTPResponse:
    """The answer to a GET, or to a POST when there is a body. Raises `Moved` instead of asking another server."""
    reply: HTTPResponse = build_opener(Stay).open(Request(address, body, headers or {}), timeout=TIMEOUT_SECONDS)
    return reply
