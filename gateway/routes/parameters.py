"""What a request may say beside its body, and what an answer says in its headers."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from tailrace.gateway.live.all_jobs import MOST_JOBS
from tailrace.gateway.routes.history import MOST as MOST_EVENTS
from tailrace.gateway.routes.schemas import JobStatus
from tailrace.gateway.routes.submissions import IDEMPOTENCY_KEY
from tailrace.streams.keys import KEY_FORM, PLATFORM_FORM, WORD_FORM
from tailrace.streams.schedules import NAME_FORM
from tailrace.streams.views.dead_letters import ERROR_LENGTH
from tailrace.streams.views.listing import LIMIT, MOST

TEXT: Final = {"type": "string"}


def _parameter(place: str, name: str, what: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "description": what, "schema": dict(schema), **more}


def _path(name: str, what: str, schema: Mapping[str, Any], example: str) -> dict[str, Any]:
    return _parameter("path", name, what, schema, required=True, example=example)


PARAMETERS: Final[Mapping[str, dict[str, Any]]] = {
    "JobId": _path(
        "job_id",
        "The id of a job: its platform, a dot, its key.",
        {"type": "string", "pattern": rf"^{PLATFORM_FORM}\.{KEY_FORM}$"},
        "research.tides-1",
    ),
    "Platform": _path(
        "platform", "A declared platform.", {"type": "string", "pattern": f"^{PLATFORM_FORM}$"}, "default"
    ),
    "ScheduleName": _path(
        "name", "The name of a schedule.", {"type": "string", "pattern": f"^{NAME_FORM}$"}, "nightly"
    ),
    "PageFile": _path("name", "The name of a file of the page.", TEXT, "style.css"),
    "IdempotencyKey": _parameter(
        "header",
        IDEMPOTENCY_KEY,
        "The same key again is the same job, for as long as it is kept. Not beside an id in the body.",
        {"type": "string", "pattern": "^[!-~]{1,255}$"},
    ),
    "IfNoneMatch": _parameter("header", "If-None-Match", "The ETag of what the caller has.", TEXT),
    "LastEventId": _parameter(
        "header", "Last-Event-ID", "The id of the last event the caller has; one that is not known: all again.", TEXT
    ),
    "LastEventIdQuery": _parameter("query", "lastEventId", "The same, for who cannot send headers.", TEXT),
    "HistoryAttempt": _parameter(
        "query", "attempt", "Only the events of the attempt that counts.", {"enum": ["current"]}
    ),
    "HistoryAfter": _parameter("query", "after", "Only what came after the event with this id.", TEXT),
    "HistoryLimit": _parameter(
        "query", "limit", "At most so many; all unless said.", {"type": "integer", "minimum": 1, "maximum": MOST_EVENTS}
    ),
    "StepName": _parameter("query", "name", "Which step.", TEXT),
    "State": _parameter("query", "state", "Which jobs.", {"enum": list(get_args(JobStatus))}, required=True),
    "PageLimit": _parameter(
        "query",
        "limit",
        "At most so many.",
        {"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT},
    ),
    "PageAfter": _parameter("query", "after", "The `next` of the page before.", {"type": "string", "maxLength": 200}),
    "Wait": _parameter(
        "query",
        "wait",
        "0: by what is known at once; a consumer that was not seen to beat yet is not counted as alive.",
        {"enum": ["0", "1"], "default": "1"},
    ),
    "DeadPlatform": _parameter(
        "query", "platform", "Only of this platform.", {"type": "string", "pattern": f"^{PLATFORM_FORM}$"}
    ),
    "DeadKind": _parameter("query", "kind", "Only jobs of this kind.", {"type": "string", "pattern": f"^{WORD_FORM}$"}),
    "DeadError": _parameter(
        "query",
        "error",
        "Only jobs with this type of error.",
        {"type": "string", "minLength": 1, "maxLength": ERROR_LENGTH},
    ),
    "EventsPlatform": _parameter("query", "platform", "Only of these platforms, with commas between.", TEXT),
    "EventsJobs": _parameter("query", "jobs", f"Only of these jobs, with commas between; {MOST_JOBS} at most.", TEXT),
}

OF_PATH: Final = {"job_id": "JobId", "platform": "Platform", "name": "ScheduleName"}
"""What a part of a path is, unless it is a file of the page."""


def _header(what: str, schema: Mapping[str, Any] = TEXT, *, always: bool = True) -> dict[str, Any]:
    return {"description": what, "schema": dict(schema), "required": always}


HEADERS: Final[Mapping[str, dict[str, Any]]] = {
    "Location": _header("Where to look from now on."),
    "Retry-After": _header("In how many seconds to come back.", {"type": "integer", "minimum": 1}),
    "ETag": _header("Names these very bytes.", always=False),
    "Idempotency-Replayed": _header("This very request was accepted before.", {"enum": ["true"]}, always=False),
    "Set-Cookie": _header("The session.", always=False),
    "WWW-Authenticate": _header("How to come back."),
}
