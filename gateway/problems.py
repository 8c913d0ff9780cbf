"""Refusals: every code one may have, with its status and its reason, and the problem (RFC 9457) a client gets."""

from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus

from msgspec import UNSET, Struct, UnsetType, json
from starlette.responses import Response

PROBLEM = "application/problem+json"

encode = json.Encoder().encode


class Code(Enum):
    """The word for a program: its status, and when it is used."""

    MALFORMED = 400, "not UTF-8, not JSON, not an object, nested more than 64 levels deep; not HTTP"
    UNAUTHORIZED = 401, "no key, ticket or session that is known"
    SCOPE_MISSING = 403, "the key has not the scope that this needs"
    PLATFORM_FORBIDDEN = 403, "the key is not for this platform"
    FOREIGN_ORIGIN = 403, "a page of another origin may not do this"
    KEYS_NEEDED = 403, "mounted without keys: the caller is on another machine"
    JOB_NOT_FOUND = 404, "no such job is kept"
    PLATFORM_NOT_FOUND = 404, "no such platform is declared"
    SCHEDULE_NOT_FOUND = 404, "no such schedule is there"
    STEP_NOT_FOUND = 404, "no such step was saved"
    NOT_FOUND = 404, "nothing is served at this path"
    METHOD_NOT_ALLOWED = 405, "the path is served, this method is not"
    TOO_SLOW = 408, "the request did not arrive in time"
    OTHER_BODY = 409, "the id is taken by another request"
    JOB_ENDED = 409, "the job has ended, and `state` tells how"
    JOB_NOT_ENDED = 409, "the job has not ended, and `state` tells where it is"
    WORKER_SHARED = 409, "a worker of the platform serves others too, which the key is not for"
    TOO_LARGE = 413, "a body over 1,048,576 bytes"
    NOT_JSON = 415, "a body without `Content-Type: application/json`"
    OTHER_HOST = 421, "without keys: the name in `Host` could be a stranger's"
    WRONG_FIELD = 422, "a wrong, missing or unknown value; `field` names it, and nothing was stored"
    RATE_EXCEEDED = 429, "too many requests of this key within a second"
    TOO_MANY_REQUESTS = 429, "too many requests of this key under way"
    TOO_MANY_STREAMS = 429, "too many open streams"
    TOO_MANY_CONNECTIONS = 429, "too many connections"
    INTERNAL = 500, "a bug of ours"
    TOO_MANY_BYTES = 503, "the bodies of all requests under way are too large together; nothing was stored"
    STORE_AWAY = 503, "the store does not answer; `jobIds` names jobs of the request that may exist"
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
