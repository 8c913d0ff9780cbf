"""How a route is described, and the routes around the work: the process, the page, who is asking."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.access.tickets import SessionBody, TicketBody
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import JSON
from tailrace.gateway.routes.bodies import Body, Nothing, PlatformName, Word
from tailrace.gateway.routes.schemas import Count

TEXT: Final = "text/plain"
HTML: Final = "text/html"
STREAM: Final = "text/event-stream"


class Answer(Struct, frozen=True):
    """One way in which a route answers well."""

    what: str
    shape: Any = None  # of the JSON, or of each event of a stream; None: no JSON
    inside: str | None = None  # the envelope: `data`, or `success`, which has `data` too
    media: tuple[str, ...] = (JSON,)
    headers: tuple[str, ...] = ()


class Operation(Struct, frozen=True, kw_only=True):
    """One route."""

    id: str
    does: str
    group: str
    answers: Mapping[int, Answer]
    more: str = ""
    takes: type[Body] | None = None
    examples: tuple[Any, ...] = ()
    asks: tuple[str, ...] = ()  # parameters beside those of its path
    refuses: tuple[Code, ...] = ()  # beside those that follow from the rest
    store: bool = True  # whether it says so when the store is away


UNCHANGED: Final = Answer("The caller has it already.", media=(), headers=("ETag",))


def kept(what: str, shape: Any, inside: str | None = "data") -> dict[int, Answer]:
    """The answer has a tag once it changes no more."""
    return {**ok(what, shape, inside, "ETag"), 304: UNCHANGED}


def ok(what: str, shape: Any, inside: str | None = "data", *headers: str) -> dict[int, Answer]:
    return {200: Answer(what, shape, inside, headers=headers)}


def accepted(what: str, shape: Any, inside: str | None = None, *headers: str) -> dict[int, Answer]:
    return {202: Answer(what, shape, inside, headers=("Location", "Retry-After", *headers))}


class Ticket(Struct, frozen=True):
    """For one look at one job, in the query of its stream; good for so many seconds."""

    ticket: str
    expiresIn: Count


class Caller(Struct, frozen=True):
    """What the caller may do; `key` is a name that tells nothing, null: there are no keys. `platforms` null: all.

    `kinds`: the built-in kinds that this gateway accepts. It does not know the kinds of your own handlers.
    """

    key: str | None
    scopes: list[Scope]
    platforms: list[PlatformName] | None
    kinds: list[Word]


class Alive(Struct, frozen=True):
    status: Literal["ok"]


class Ready(Struct, frozen=True):
    """`advice`: what could be better about the store, in sentences."""

    status: Literal["ready"]
    advice: list[str]


class StoreSeen(Struct, frozen=True):
    """Which server holds everything, and how full it is; null for a key that does not see all that is in it."""

    server: str
    version: str
    memoryBytes: Count | None
    memoryLimitBytes: Count | None


NO_CONTENT: Final = "Nothing to say."
PAGE: Final = Answer("The page.", media=(HTML,), headers=("ETag",))

AROUND: Final[Mapping[str, Operation]] = {
    "GET /": Operation(
        id="welcome",
        does="The page for a browser, a few words for everything else that asks",
        group="page",
        answers={200: Answer("The page, or the words.", media=(HTML, TEXT)), 304: UNCHANGED},
        asks=("IfNoneMatch",),
        store=False,
    ),
    "GET /jobs/{job_id}": Operation(
        id="jobPage",
        does="The page of one job: the same bytes for every id",
        group="page",
        answers={200: PAGE, 304: UNCHANGED},
        asks=("IfNoneMatch",),
        store=False,
    ),
    "GET /page/{name}": Operation(
        id="pageFile",
        does="One file of the page",
        group="page",
        answers={
            200: Answer("The file.", media=("text/css", "text/javascript", "image/svg+xml", HTML), headers=("ETag",)),
            304: UNCHANGED,
        },
        asks=("IfNoneMatch",),
        refuses=(Code.NOT_FOUND,),
        store=False,
    ),
    "GET /openapi.json": Operation(
        id="document",
        does="This document",
        group="process",
        answers={200: Answer("OpenAPI 3.1.", dict[str, Any], headers=("ETag",)), 304: UNCHANGED},
        asks=("IfNoneMatch",),
        store=False,
    ),
    "GET /healthz": Operation(
        id="isAlive",
        does="Whether the process lives",
        group="process",
        answers=ok("It lives.", Alive, None),
        store=False,
    ),
    "GET /readyz": Operation(
        id="isReady",
        does="Whether the store answers and is fit",
        group="process",
        answers=ok("It is ready.", Ready, None),
    ),
    "GET /metrics": Operation(
        id="metrics",
        does="Counts of this moment for Prometheus",
        group="process",
        answers={200: Answer("The text format, version 0.0.4.", media=(TEXT,))},
    ),
    "GET /api/store": Operation(
        id="showStore",
        does="The store behind this gateway",
        group="process",
        answers=ok("The store.", StoreSeen),
    ),
    "GET /api/session": Operation(
        id="whoAmI", does="What the caller may do", group="session", answers=ok("What it may do.", Caller)
    ),
    "POST /api/session": Operation(
        id="signIn",
        does="A cookie for a key",
        more="The key comes in the body, or as with any request. The cookie is good for 12 hours.",
        group="session",
        takes=SessionBody,
        examples=({},),
        answers=ok("Signed in; without keys on this gateway there is no cookie.", Caller, "data", "Set-Cookie"),
        refuses=(Code.UNAUTHORIZED, Code.FOREIGN_ORIGIN),
    ),
    "DELETE /api/session": Operation(
        id="signOut",
        does="Sign out everywhere",
        group="session",
        takes=Nothing,
        answers={204: Answer(NO_CONTENT, media=(), headers=("Set-Cookie",))},
    ),
    "POST /api/tickets": Operation(
        id="issueTicket",
        does="A ticket for one look at one job, for an EventSource, which sends no headers",
        group="session",
        takes=TicketBody,
        examples=({"jobId": "research.tides-1"},),
        answers=ok("Good once, within a minute, as `?ticket=` of the job's stream.", Ticket, None),
        refuses=(Code.JOB_NOT_FOUND, Code.STORE_FULL),
    ),
}
