"""Every reply that is not a stream: compact JSON, and each refusal as a problem (RFC 9457) with a code."""

from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final, Literal

import anyio
from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tailrace.gateway.problems import Code, Refusal, problem
from tailrace.streams.errors import (
    BadConfiguration,
    Forbidden,
    JobNotFound,
    NoStore,
    NotReplicated,
    OtherBody,
    ScheduleNotFound,
    StoreFull,
    UnfitStore,
    WorkerShared,
    WrongField,
    WrongState,
)
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.states import State

LINGER_SECONDS = 2.0
LINGER_BYTES = 32 * 1024 * 1024

JSON = "application/json"

MOUNTED_AT: Final[ContextVar[str]] = ContextVar("mounted_at", default="")
"""The path that this application is mounted at inside another one, encoded for a URL; empty: it is not mounted."""


def url_path(path: str) -> str:
    """The path of a route as a client must ask for it."""
    return MOUNTED_AT.get() + path


JobStatus = Literal["waiting", "active", "delayed", "waiting-children", "completed", "failed", "cancelled"]

STATUS: Final[Mapping[State, JobStatus]] = {
    State.WAITING: "waiting",
    State.RUNNING: "active",
    State.DELAYED: "delayed",
    State.AWAITING: "waiting-children",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}
"""The seeds' words over HTTP, which are not all ours."""


def status_of(state: State) -> JobStatus:
    return STATUS[state]


def raw_reply(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that is encoded already."""
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, JSON)


def code_of(error: Exception) -> Code:
    """The code of an error."""
    if isinstance(error, WrongState) and not State(error.state).ended:
        return Code.JOB_NOT_ENDED
    return next((code for kind, code in ANSWERS.items() if isinstance(error, kind)), Code.INTERNAL)


ANSWERS: dict[type[Exception], Code] = {
    WrongField: Code.WRONG_FIELD,
    Forbidden: Code.PLATFORM_FORBIDDEN,
    OtherBody: Code.OTHER_BODY,
    JobNotFound: Code.JOB_NOT_FOUND,
    WrongState: Code.JOB_ENDED,
    WorkerShared: Code.WORKER_SHARED,
    ScheduleNotFound: Code.SCHEDULE_NOT_FOUND,
    StoreFull: Code.STORE_FULL,
    NotReplicated: Code.NOT_REPLICATED,
    NoStore: Code.STORE_AWAY,
    BadConfiguration: Code.STORE_UNFIT,  # also when the store began to refuse our credentials
}

RETRY_SECONDS = {Code.STORE_FULL: "10", Code.STORE_AWAY: "2", Code.NOT_REPLICATED: "2", Code.STORE_UNFIT: "60"}


KNOWN = tuple(ANSWERS)


async def on_known(_: Request, error: Exception) -> Response:
    return answer_to(error)


def answer_to(error: Exception) -> Response:
    """The problem that one of the `KNOWN` errors becomes."""
    code = code_of(error)
    headers = {"Retry-After": RETRY_SECONDS[code]} if code in RETRY_SECONDS else None
    job_ids = getattr(error, "job_ids", ())
    detail = f"{told_of(error)}; {MAY_EXIST}" if job_ids else told_of(error)
    state = status_of(State(error.state)) if isinstance(error, WrongState) else UNSET
    return problem(code, detail, headers, getattr(error, "field", UNSET), state, job_ids)


MAY_EXIST = (
    "the jobs in jobIds may have been accepted: to try again without submitting them twice, "
    "send each with its key, which is the part of its jobId after the dot"
)


def told_of(error: Exception) -> str:
    """The error's own sentence, unless it may reveal the address or the user of the store."""
    if isinstance(error, NoStore) and not isinstance(error, NotReplicated):
        return "the store does not answer; try again"
    if isinstance(error, BadConfiguration) and not isinstance(error, UnfitStore):
        return f"the store refuses this gateway; `{PROGRAM} doctor` says why"
    if isinstance(error, WrongState):
        state = State(error.state)
        ended = "has ended" if state.ended else "has not ended"
        return f"job {error.job_id} {ended}: {status_of(state)}; {error.why}"
    return str(error)


async def on_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    answer = problem(error.code, error.detail, error.headers)
    return Interruption(answer) if error.code is Code.TOO_LARGE else answer


class Interruption(Response):
    """An answer to a client that is still sending.

    To close at once would reset the connection, and the client might never read why. So the answer goes out, what
    still comes in is thrown away for a little while, and then the connection closes.
    """

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.body, answer.status_code, answer.headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with anyio.move_on_after(LINGER_SECONDS):
            thrown_away = 0
            while thrown_away < LINGER_BYTES:
                message = await receive()
                if not message.get("more_body"):
                    break
                thrown_away += len(message["body"])
        await send({"type": "http.response.body", "body": b""})


async def on_http(request: Request, error: Exception) -> Response:
    """Refusals of the router itself: no such path, no such method."""
    assert isinstance(error, HTTPException)
    code = Code[HTTPStatus(error.status_code).name]
    if code is not Code.METHOD_NOT_ALLOWED:
        return problem(code, code.when, error.headers)
    # The router knows the methods of the first route of this path only.
    served = {method for route in request.app.routes if fits(route, request) for method in route.methods}
    return problem(code, f"this path does not take {request.method}", {"Allow": ", ".join(sorted(served))})


def fits(route: Route, request: Request) -> bool:
    return route.path_regex.match(request.scope["path"]) is not None


async def on_departure(_: Request, __: Exception) -> Response:
    """The client closed the connection in the middle of its request: this answer is not sent."""
    return Response(status_code=400)


async def on_surprise(_: Request, __: Exception) -> Response:
    """A bug. The server logs it with its traceback; the client learns only that it happened."""
    closing = {"Connection": "close"}  # the server closes after a bug; better said
    return problem(Code.INTERNAL, "an error in the gateway; its log has the details", closing)


HANDLERS: dict[Any, Any] = {
    **dict.fromkeys(ANSWERS, on_known),
    Refusal: on_refusal,
    HTTPException: on_http,
    ClientDisconnect: on_departure,
    Exception: on_surprise,
}
