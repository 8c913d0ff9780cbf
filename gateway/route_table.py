"""The table of routes: beside each handler, `@route` says its path, scope, answers, body and refusals once.

The application, the guard and the document at /openapi.json read this table. In the document, a handler's name is the
id of the operation, the first line of its docstring the summary, the rest the description.

A handler is a function of the backend, the request, what its path names (the keys of a job's platform and the job's own
key, the keys of a platform, or the words as they are) and the body, if it takes one, in the shape that its signature
names. It returns the value that the document describes, which is put into its envelope and encoded here.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.access.reach import Reach
from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import BODY_BYTES, Body, read_body
from tailrace.gateway.etags import tagged_reply
from tailrace.gateway.metrics.counters import ROUTE
from tailrace.gateway.problems import Code, encode
from tailrace.gateway.replies import JSON, raw_reply

TEXT: Final = "text/plain"
HTML: Final = "text/html"
STREAM: Final = "text/event-stream"

NO_MATCH: Final[tuple[Match, AsgiScope]] = (Match.NONE, {})
STRING: Final[Mapping[str, Any]] = MappingProxyType({"type": "string"})


def formed(form: str) -> dict[str, Any]:
    """The schema of a string of this form."""
    return {"type": "string", "pattern": f"^{form}$"}


def up_to(most: int, **more: Any) -> dict[str, Any]:
    """The schema of a whole number from 1 on."""
    return {"type": "integer", "minimum": 1, "maximum": most, **more}


Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)


class Open(Enum):
    """Routes that no scope is needed for."""

    PUBLIC = "no key at all: it holds no data"
    ANY = "any key"


PUBLIC, ANY = Open.PUBLIC, Open.ANY
READ, SUBMIT, ACT, ADMIN = Scope.READ, Scope.SUBMIT, Scope.ACT, Scope.ADMIN


class Answer(Struct, frozen=True):
    """One successful answer of a route."""

    what: str
    shape: Any = None  # of the JSON, or of each event of a stream; a tuple: one of them; None: no JSON
    inside: str | None = None  # the envelope: `data`, or `success`, which has `data` too
    media: tuple[str, ...] = (JSON,)
    headers: tuple[str, ...] = ()

    def enveloped(self, value: Any) -> Any:
        if self.inside is None:
            return value
        return {"data": value} if self.inside == "data" else {"success": True, "data": value}


class Parameter(Struct, frozen=True):
    """A parameter of a request: in its path, its query or a header."""

    id: str  # in the document
    place: str  # path, query or header
    name: str
    what: str
    schema: Mapping[str, Any] = STRING
    required: bool = False
    example: str | None = None


class Reply(Struct, frozen=True):
    """A value with another status or with headers."""

    value: Any
    status: int | None = None  # else the first that the table has
    headers: Mapping[str, str] | None = None
    tagged: bool = False  # it is final: a client that has it gets 304


class Endpoint(Struct, frozen=True):
    """A row of the table, and the decorator that puts it there."""

    method: str
    path: str
    scope: Scope | Open
    answers: Mapping[int, Answer]
    most: int = BODY_BYTES  # of the body
    examples: tuple[Any, ...] = ()
    asks: tuple[Parameter, ...] = ()  # beside what its path names
    refuses: tuple[Code, ...] = ()  # beside what follows from the rest
    store: bool = True  # whether it may be refused because the store is away
    builtin: bool = False  # it is for a built-in kind, and gone where these are left out
    handler: Handler | None = None
    takes: type[Body] | None = None
    group: str = ""
    id: str = ""  # in the document, and in the clients that are made of it: unless said, the name of the handler
    does: str = ""
    more: str = ""

    def __call__(self, handler: H) -> H:
        does, _, more = inspect.cleandoc(handler.__doc__ or "").partition("\n")
        first, *rest = handler.__name__.split("_")
        body = [kind for kind in inspect.get_annotations(handler).values() if is_body(kind)]
        said = replace(
            self,
            handler=handler,
            takes=body[0] if body else None,
            id=self.id or first + "".join(map(str.capitalize, rest)),
            does=does.removesuffix("."),
            more=" ".join(more.split()),
        )
        assert self.name not in TABLE, f"{self.name} is served twice"
        TABLE[self.name] = said
        return handler

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def streams(self) -> bool:
        return any(STREAM in answer.media for answer in self.answers.values())

    @property
    def of_job(self) -> bool:
        """Whether its path names a job that must be there; the page is the same for every id."""
        return "{job_id}" in self.path and self.group != "page"

    @property
    def of_platform(self) -> bool:
        """Whether its path names a platform that must be declared; those who keep schedules check it themselves."""
        return "{platform}" in self.path and self.group != "schedules"


def is_body(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Body)


def group(name: str) -> "partial[Endpoint]":
    """The decorator for the routes of one group of the document."""
    return partial(Endpoint, group=name)


TABLE: Final[dict[str, Endpoint]] = {}
"""Every route by its method and path; complete once `gateway.application` is imported."""


IF_NONE_MATCH: Final = Parameter("IfNoneMatch", "header", "If-None-Match", "The ETag of what the caller has.")
UNCHANGED: Final = Answer("Not modified: the caller has this answer.", media=(), headers=("ETag",))
NO_CONTENT: Final = "Done."


def ok(what: str, shape: Any, inside: str | None = "data", *headers: str) -> dict[int, Answer]:
    return {200: Answer(what, shape, inside, headers=headers)}


def kept(what: str, shape: Any, inside: str | None = "data") -> dict[int, Answer]:
    """The answer has a tag once it changes no more."""
    return {**ok(what, shape, inside, "ETag"), 304: UNCHANGED}


def accepted(what: str, shape: Any, inside: str | None = None, *headers: str) -> dict[int, Answer]:
    return {202: Answer(what, shape, inside, headers=("Location", "Retry-After", *headers))}


class Served(Route):
    """A route of an application: what the table says of it, served from one backend."""

    def __init__(self, said: Endpoint, backend: Backend) -> None:
        super().__init__(said.path, self._serve, methods=[said.method])
        self.app = self._serve
        assert said.handler is not None, f"{said.name} decorates no handler"
        self.said = said
        self._handler = said.handler
        self._backend = backend
        self._find = finder(said, backend.reach)
        self._status = next(iter(said.answers))
        self._begins = said.path.partition("{")[0]

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        """Compare the beginning of the path first: that rules out most routes at a tenth of the cost."""
        if not scope["path"].startswith(self._begins):
            return NO_MATCH
        found = super().matches(scope)
        if found[0] is Match.FULL:
            scope[ROUTE] = self.said.path
        return found

    async def _serve(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        given = self._find(scope["path_params"])
        if self.said.takes is not None:
            given = (*given, await read_body(request, self.said.takes, self.said.most))
        told = await self._handler(self._backend, request, *given)
        response = told if isinstance(told, Response) else self._encoded(request, told)
        await response(scope, receive, send)

    def _encoded(self, request: Request, told: Any) -> Response:
        reply = told if isinstance(told, Reply) else Reply(told)
        status = reply.status or self._status
        body = encode(self.said.answers[status].enveloped(reply.value))
        return tagged_reply(request, body) if reply.tagged else raw_reply(body, status, reply.headers)


def finder(said: Endpoint, reach: Reach) -> Callable[[Mapping[str, str]], tuple[Any, ...]]:
    """The function that finds the objects that a path names."""
    if said.of_job:
        return lambda named: reach.job(named["job_id"])
    if said.of_platform:
        return lambda named: (reach.platform(named["platform"]),)
    return lambda named: tuple(named.values())
