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


def request(asked: Request) -> HTTPResponse:
    """The answer of the server that is asked. Raises `Moved` instead of asking another one."""
    reply: HTTPResponse = build_opener(Stay).open(asked, timeout=TIMEOUT_SECONDS)
    return reply
