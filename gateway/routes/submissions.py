"""Submissions: the routes that bring work, each with the body it takes."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request

from tailrace.gateway.bodies import Args, Body, like, wrong_field
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import JobStatus, code_of, status_of
from tailrace.gateway.route_table import SUBMIT, Answer, Parameter, Reply, accepted, group
from tailrace.gateway.routes.jobs import AGAIN_SECONDS, Links, links_of, where
from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.kinds import KINDS, Name, Text
from tailrace.streams.errors import OtherBody, Refused, StoreError, WrongField
from tailrace.streams.keys import join_id
from tailrace.streams.options import Options, Priority
from tailrace.streams.process.turns import in_turns
from tailrace.streams.words import Count, JobId, JobKey, PlatformName, Word

route = group("submit")

BULK = 10_000
IDEMPOTENCY_KEY = "Idempotency-Key"
_VISIBLE = re.compile(r"[!-~]{1,255}")

ONCE: Final = Parameter(
    "IdempotencyKey",
    "header",
    IDEMPOTENCY_KEY,
    "The same key again is the same job, for as long as it is kept. Not beside an id in the body.",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
)
REPLAYED: Final = "Idempotency-Replayed"
NEW_WORK: Final = (Code.OTHER_BODY, Code.STORE_FULL, Code.PLATFORM_FORBIDDEN)
JOB: Final = {"platform": "default", "kind": "scan", "args": {"params": {"product_ids": ["p-1"]}}}


class ResearchBody(Body, frozen=True):
    query: Text
    jobId: JobKey | None = None


class JobBody(Options, Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job, with all that can be said of one."""

    platform: PlatformName
    kind: Word
    args: Args = field(default_factory=dict)
    id: JobKey | None = None

    def __post_init__(self) -> None:
        """The options are checked once, when `options_of` takes them out."""


class BulkBody(Body, frozen=True):
    # Each is decoded for itself: one that is wrong does not spoil the others.
    jobs: Annotated[list[Any], Meta(max_length=BULK, extra_json_schema={"items": like(JobBody)})]


class WorkflowBody(Body, frozen=True):
    workflow_id: Name
    params: dict[str, Any] = field(default_factory=dict)
    priority: Priority = "normal"
    jobId: JobKey | None = None


class Accepted(Struct, frozen=True):
    """A job in line, or the one that this request is the same as."""

    jobId: JobId
    status: JobStatus
    links: Links
    deduplicated: Literal[True] | UnsetType = UNSET  # another job holds the same `dedupe` key: this is that one


class ResearchAccepted(Struct, frozen=True):
    jobId: JobId
    status: Literal["queued"]
    message: str
    streamUrl: str
    historyUrl: str


class WorkflowAccepted(Struct, frozen=True):
    job_id: JobId
    workflow_id: str
    platform: PlatformName
    status: JobStatus


class BulkRefusal(Struct, frozen=True):
    """Why one job of many was refused, and where it stood in the request."""

    index: Count
    code: Annotated[str, Meta(extra_json_schema={"enum": ["OTHER_BODY", "PLATFORM_FORBIDDEN", "WRONG_FIELD"]})]
    field: str | None
    detail: str


class BulkLine(Struct, frozen=True):
    """One job of many: where it is, or why it was refused."""

    jobId: JobId | UnsetType = UNSET
    status: JobStatus | UnsetType = UNSET
    deduplicated: Literal[True] | UnsetType = UNSET
    error: BulkRefusal | UnsetType = UNSET


class BulkAccepted(Struct, frozen=True):
    """One line for each job of the request, in its order."""

    accepted: Count
    refused: Count
    jobs: list[BulkLine]


class Submissions:
    """The routes that bring work."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    @route(
        "POST",
        "/research/start",
        SUBMIT,
        accepted("In line.", ResearchAccepted, None, REPLAYED),
        takes=ResearchBody,
        examples=({"query": "tides"}, {"query": "tides", "jobId": "tides-1"}),
        asks=(ONCE,),
        refuses=NEW_WORK,
    )
    async def start_research(self, request: Request, body: ResearchBody) -> Reply:
        """Start a research."""
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("research", "research", {"query": body.query}, key)
        job = await submit(self._producer, request, asked, {"id": "jobId", "args.query": "query"})
        links = links_of(job.id)
        message = "The research was accepted; follow it at streamUrl."
        answer = ResearchAccepted(job.id, "queued", message, links.stream, links.history)
        return Reply(answer, headers=headers_of(job, asked))

    @route(
        "POST",
        "/api/jobs",
        SUBMIT,
        accepted("In line.", Accepted, None, REPLAYED),
        takes=JobBody,
        examples=(JOB, {**JOB, "id": "mine-1", "priority": "high", "delay_seconds": 60}),
        asks=(ONCE,),
        refuses=NEW_WORK,
    )
    async def submit_job(self, request: Request, body: JobBody) -> Reply:
        """Submit a job.

        The same id and body again is the same job. `Idempotency-Key` does the same for a job without an id.
        The kind `drill` is 422 where it is switched off, as it is by default on a gateway with keys.
        """
        options = options_of(body)
        asked = Submission(body.platform, body.kind, body.args, key_of(request, body.id, "id"), options)
        job = await submit(self._producer, request, asked, {})
        answer = Accepted(job.id, status_of(job.status), links_of(job.id), deduplicated(asked, job) or UNSET)
        return Reply(answer, headers=headers_of(job, asked))

    @route(
        "POST",
        "/api/v2/workflows/execute",
        SUBMIT,
        accepted("In line.", WorkflowAccepted, "success", REPLAYED),
        takes=WorkflowBody,
        examples=({"workflow_id": "daily", "params": {"product_ids": ["p-1"]}},),
        asks=(ONCE,),
        refuses=NEW_WORK,
    )
    async def execute_workflow(self, request: Request, body: WorkflowBody) -> Reply:
        """Run a workflow on `params.platform`, else on `default`."""
        platform = body.params.get("platform", "default")
        if not isinstance(platform, str):
            raise WrongField("params.platform", "must be a string")
        # A declared kind takes the params as its args. All else, and `scan` too, is a scan told which workflow it is.
        kind = body.workflow_id if body.workflow_id in KINDS else "scan"
        args: dict[str, Any] = {"workflow_id": body.workflow_id, "params": body.params}
        if kind != "scan":
            args = {name: value for name, value in body.params.items() if name != "platform"}
        key = key_of(request, body.jobId, "jobId")
        asked = Submission(platform, kind, args, key, Options(priority=body.priority))
        names = {"id": "jobId", "platform": "params.platform", "args": "params", "kind": "workflow_id"}
        if kind == "scan":
            names["args.params"] = "params"
        job = await submit(self._producer, request, asked, names)
        answer = WorkflowAccepted(job.id, body.workflow_id, platform, status_of(job.status))
        return Reply(answer, headers=headers_of(job, asked))

    @route(
        "POST",
        "/api/jobs/bulk",
        SUBMIT,
        {202: Answer("A line for each.", BulkAccepted, headers=("Retry-After",))},
        takes=BulkBody,
        examples=({"jobs": [JOB, {**JOB, "id": "mine-2"}]},),
        refuses=(Code.STORE_FULL,),
    )
    async def submit_jobs(self, request: Request, body: BulkBody) -> Reply:
        """Submit many jobs; what is valid is accepted."""
        if IDEMPOTENCY_KEY in request.headers:
            raise WrongField(IDEMPOTENCY_KEY, "is for one job; give each job of a bulk its own id")
        asked = [submission_of(item) async for item in in_turns(body.jobs)]
        answers = iter(await self._submit_all(asked))
        results = [item if isinstance(item, WrongField) else next(answers) for item in asked]
        refused = sum(isinstance(result, Refused) for result in results)
        lines = [line(*each) async for each in in_turns(zip(range(len(results)), asked, results, strict=True))]
        again = {"Retry-After": str(AGAIN_SECONDS)}  # there is no one place to look for all of them
        return Reply(BulkAccepted(len(results) - refused, refused, lines), headers=again)

    async def _submit_all(self, asked: Sequence[Submission | WrongField]) -> list[Submitted | Refused]:
        """Submit what is valid. An error that names jobs names them by their places in the request."""
        valid = [item for item in asked if isinstance(item, Submission)]
        try:
            return await self._producer.submit_many(valid)
        except StoreError as error:
            if error.job_ids:
                ids = iter(error.job_ids)
                error.job_ids = tuple(next(ids) if isinstance(item, Submission) else None for item in asked)
            raise


async def submit(producer: Producer, request: Request, asked: Submission, names: Mapping[str, str]) -> Submitted:
    """Submit; a refusal names the field by its name in this route's body, or the header that stands for it."""
    try:
        return await producer.submit(asked)
    except WrongField as error:
        raise WrongField(renamed(error.field, names), error.reason) from None
    except OtherBody as error:
        named_by = IDEMPOTENCY_KEY if IDEMPOTENCY_KEY in request.headers else names.get("id", "id")
        raise OtherBody(error.job_id, named_by) from None


def options_of(body: JobBody) -> Options:
    """Raises `WrongField` if they are wrong or contradict each other."""
    return Options(**{name: getattr(body, name) for name in Options.__struct_fields__})


def key_of(request: Request, given: str | None, field: str) -> str | None:
    """The key of the job to be: the body's, else one made of the header `Idempotency-Key`.

    The header is not kept: the same one always makes the same key, and the job itself is what is remembered.
    """
    headers = request.headers.getlist(IDEMPOTENCY_KEY)
    if not headers:
        return given
    if len(headers) > 1 or not _VISIBLE.fullmatch(headers[0]):
        raise WrongField(IDEMPOTENCY_KEY, "must be one header of 1 to 255 visible ASCII characters")
    if given is not None:
        raise WrongField(IDEMPOTENCY_KEY, f"contradicts {field}, which makes a request idempotent too; say one of them")
    digest = hashlib.blake2b(headers[0].encode(), digest_size=24).digest()
    return "idem-" + base64.urlsafe_b64encode(digest).decode()


def submission_of(item: Any) -> Submission | WrongField:
    """What one job of many asks for, or what is wrong with it."""
    try:
        body = msgspec.convert(item, JobBody)
        return Submission(body.platform, body.kind, body.args, body.id, options_of(body))
    except msgspec.ValidationError as error:
        return wrong_field(error, JobBody)
    except WrongField as error:
        return error


def line(index: int, asked: Submission | WrongField, result: Submitted | Refused) -> BulkLine:
    """One job of many: where it is, or where it stood in the request and why it was refused."""
    if isinstance(result, Refused):
        field = getattr(result, "field", None)
        return BulkLine(error=BulkRefusal(index, code_of(result).name, field, str(result)))
    again = isinstance(asked, Submission) and deduplicated(asked, result)
    return BulkLine(result.id, status_of(result.status), again or UNSET)


def renamed(name: str, names: Mapping[str, str]) -> str:
    """The field by the name of the longest part of its path that has another name here."""
    rest = ""
    while name and name not in names:
        name, dot, last = name.rpartition(".")
        rest = dot + last + rest
    return names.get(name, "") + rest


def deduplicated(asked: Submission, job: Submitted) -> bool:
    """Whether the answer is another job, which holds the same `dedupe` key."""
    return job.replayed and (asked.id is None or job.id != join_id(asked.platform, asked.id))


def headers_of(job: Submitted, asked: Submission) -> dict[str, str]:
    """Where the job is, and whether this very request was accepted before; a dedupe key of another job is not that."""
    again = job.replayed and not deduplicated(asked, job)
    return {**where(job.id), **({REPLAYED: "true"} if again else {})}
