"""Refusals: every code one may have, with its status and its reason, and the problem (RFC 9457) a client gets."""

from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus

from msgspec import UNSET, Struct, UnsetType, json
from starlette.responses import Response

PROBLEM = "application/problem+json"

encode = json.Encoder().encode


class Code(Enum):
    """The code of a refusal, for programs: its status, and when it is used."""

    MALFORMED = 400, "not UTF-8, not JSON, not an object, nested more than 64 levels deep; not HTTP"
    UNAUTHORIZED = 401, "no valid key, ticket or session"
    SCOPE_MISSING = 403, "the key does not have the scope that this needs"
    PLATFORM_FORBIDDEN = 403, "the key is not for this platform"
    FOREIGN_ORIGIN = 403, "a page of another origin may not do this"
    KEYS_NEEDED = 403, "mounted without keys: the caller is on another machine"
    JOB_NOT_FOUND = 404, "the job does not exist, or is no longer kept"
    PLATFORM_NOT_FOUND = 404, "the platform is not declared"
    SCHEDULE_NOT_FOUND = 404, "the schedule does not exist"
    STEP_NOT_FOUND = 404, "the step was not saved"
    NOT_FOUND = 404, "the path does not exist"
    METHOD_NOT_ALLOWED = 405, "the path does not take this method"
    TOO_SLOW = 408, "the request did not arrive in time"
    OTHER_BODY = 409, "the id belongs to a job with another body"
    JOB_ENDED = 409, "the job has ended; `state` says how"
    JOB_NOT_ENDED = 409, "the job has not ended; `state` says where it is"
    WORKER_SHARED = 409, "a worker of the platform also serves platforms that the key is not for"
    TOO_LARGE = 413, "a body over 1,048,576 bytes"
    NOT_JSON = 415, "a body without `Content-Type: application/json`"
    OTHER_HOST = 421, "without keys: `Host` is a public name"
    WRONG_FIELD = 422, "a wrong, missing or unknown value; `field` names it, and nothing was stored"
    RATE_EXCEEDED = 429, "too many requests of this key in a second"
    TOO_MANY_REQUESTS = 429, "too many requests of this key in progress"
    TOO_MANY_STREAMS = 429, "too many open streams"
    TOO_MANY_CONNECTIONS = 429, "too many connections"
    INTERNAL = 500, "a bug in Tailrace"
    TOO_MANY_BYTES = 503, "the bodies of all requests in progress are too large together; nothing was stored"
    STORE_AWAY = 503, "the store does not answer; `jobIds` names jobs of the request that may exist"
    NOT_REPLICATED = 503, "it is stored, but too few replicas confirmed that in time; `jobIds` names the jobs"
    STORE_FULL = 503, "the store has no memory for new work"
    STORE_UNFIT = 503, "the store would lose jobs, or refuses our credentials"

    def __init__(self, status: int, when: str) -> None:
        self.status = status
        self.when = when


class Problem(Struct, kw_only=True):
    """A refusal: what is wrong, and with which field."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    field: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    jobIds: list[str | None] | UnsetType = UNSET  # jobs of this request that may exist; null: refused by itself


class Refusal(Exception):
    """A request that cannot be served as it is; becomes a problem."""

    def __init__(self, code: Code, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = headers


def problem(
    code: Code,
    detail: str,
    headers: Mapping[str, str] | None = None,
    field: str | UnsetType = UNSET,
    state: str | UnsetType = UNSET,
    job_ids: Sequence[str | None] = (),
) -> Response:
    body = Problem(
        title=HTTPStatus(code.status).phrase,
        status=code.status,
        detail=detail,
        code=code.name,
        field=field,
        state=state,
        jobIds=list(job_ids) or UNSET,
    )
    return Response(encode(body), code.status, {"Cache-Control": "no-store", **(headers or {})}, PROBLEM)
