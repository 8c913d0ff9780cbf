"""The routes that submit jobs, each with the body it takes."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import Args, Body, like, wrong_field
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import JobStatus, code_of, status_of
from tailrace.gateway.route_table import SUBMIT, Answer, Endpoint, Parameter, Reply, accepted, formed, group
from tailrace.gateway.routes.jobs import AGAIN_SECONDS, Links, links_of, where
from tailrace.producers import Submission, Submitted
from tailrace.producers.kinds import KINDS, MakePlan, Name, ProcessMaterial, Research
from tailrace.streams.errors import OtherBody, Refused, StoreError, WrongField
from tailrace.streams.options import NO_OPTIONS, Options, Priority
from tailrace.streams.process.tracing import traceparent_of
from tailrace.streams.process.turns import in_turns
from tailrace.streams.words import Count, JobId, JobKey, PlatformName, Word

route = group("submit")

BULK = 10_000
IDEMPOTENCY_KEY = "Idempotency-Key"
TRACEPARENT = "traceparent"
KEY_HEADER = "[!-~]{1,255}"

ONCE: Final = Parameter(
    "IdempotencyKey",
    "header",
    IDEMPOTENCY_KEY,
    "The same key again is the same job, for as long as it is kept. Not beside an id in the body.",
    formed(KEY_HEADER),
)
TRACED: Final = Parameter(
    "Traceparent", "header", TRACEPARENT, "W3C Trace Context: the job carries it, unless its body names another."
)
REPLAYED: Final = "Idempotency-Replayed"
NEW_WORK: Final = (Code.OTHER_BODY, Code.STORE_FULL, Code.PLATFORM_FORBIDDEN)
BY_JOB_ID: Final = {"id": "jobId"}  # the name of a field in the body, where it differs
JOB: Final = {"platform": "default", "kind": "scan", "args": {"params": {"product_ids": ["p-1"]}}}


class ResearchBody(Research, Body, frozen=True, forbid_unknown_fields=True):
    jobId: JobKey | None = None


class PlanBody(MakePlan, Body, frozen=True, forbid_unknown_fields=True):
    jobId: JobKey | None = None


class MaterialBody(ProcessMaterial, Body, frozen=True, forbid_unknown_fields=True):
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
    # Each is decoded by itself: a wrong one does not affect the others.
    jobs: Annotated[list[Any], Meta(max_length=BULK, extra_json_schema={"items": like(JobBody)})]


class WorkflowBody(Body, frozen=True):
    workflow_id: Name
    params: dict[str, Any] = field(default_factory=dict)
    priority: Priority = "normal"
    jobId: JobKey | None = None


class Accepted(Struct, frozen=True):
    """A job in the queue, or the one that this request is the same as."""

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


class PlanAccepted(Struct, frozen=True):
    jobId: JobId
    status: Literal["pending"]


class MaterialAccepted(Struct, frozen=True):
    materialId: str
    status: Literal["processing"]
    jobId: JobId


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


def brings(path: str, shape: type[Struct], *examples: Any, inside: str | None = None, builtin: bool = True) -> Endpoint:
    """The decorator of a route that submits one job; `builtin`: of a kind that comes with Tailrace."""
    answers = accepted("Accepted.", shape, inside, REPLAYED)
    return route(
        "POST", path, SUBMIT, answers, examples=examples, asks=(ONCE, TRACED), refuses=NEW_WORK, builtin=builtin
    )


@brings("/research/start", ResearchAccepted, {"query": "tides"}, {"query": "tides", "jobId": "tides-1"})
async def start_research(backend: Backend, request: Request, body: ResearchBody) -> Reply:
    """Start a research."""
    names = {"id": "jobId", "args.query": "query"}
    job = await submit(backend, request, names, "research", "research", args_of(body, Research), body.jobId)
    links = links_of(job.id)
    message = "The research was accepted; follow it at streamUrl."
    return Reply(ResearchAccepted(job.id, "queued", message, links.stream, links.history), headers=headers_of(job))


@brings("/api/jobs", Accepted, JOB, {**JOB, "id": "mine-1", "priority": "high", "delay_seconds": 60}, builtin=False)
async def submit_job(backend: Backend, request: Request, body: JobBody) -> Reply:
    """Submit a job.

    The same id and body again is the same job. `Idempotency-Key` does the same for a job without an id.
    A built-in kind that is switched off on this gateway is 422.
    """
    job = await submit(backend, request, {}, body.platform, body.kind, body.args, body.id, options_of(body))
    answer = Accepted(job.id, status_of(job.status), links_of(job.id), job.deduplicated or UNSET)
    return Reply(answer, headers=headers_of(job))


@brings(
    "/api/v2/workflows/execute",
    WorkflowAccepted,
    {"workflow_id": "daily", "params": {"product_ids": ["p-1"]}},
    inside="success",
)
async def execute_workflow(backend: Backend, request: Request, body: WorkflowBody) -> Reply:
    """Run a workflow on `params.platform`, else on `default`."""
    platform = body.params.get("platform", "default")
    if not isinstance(platform, str):
        raise WrongField("params.platform", "must be a string")
    # A declared kind takes the params as its args. Any other workflow, also `scan`, is a scan with that id.
    kind = body.workflow_id if body.workflow_id in KINDS else "scan"
    names = {"id": "jobId", "platform": "params.platform", "args": "params", "kind": "workflow_id"}
    args: dict[str, Any] = {name: value for name, value in body.params.items() if name != "platform"}
    if kind == "scan":
        args = {"workflow_id": body.workflow_id, "params": body.params}
        names["args.params"] = "params"
    job = await submit(backend, request, names, platform, kind, args, body.jobId, Options(priority=body.priority))
    answer = WorkflowAccepted(job.id, body.workflow_id, platform, status_of(job.status))
    return Reply(answer, headers=headers_of(job))


@brings("/api/plans", PlanAccepted, {"userId": "u-1", "goal": "read the sea", "materialIds": ["m-1"]})
async def make_plan(backend: Backend, request: Request, body: PlanBody) -> Reply:
    """Make a study plan: a `make-plan` on `plan-generation`."""
    args = args_of(body, MakePlan)
    job = await submit(backend, request, BY_JOB_ID, "plan-generation", "make-plan", args, body.jobId)
    return Reply(PlanAccepted(job.id, "pending"), headers=headers_of(job))


@brings(
    "/api/materials/complete-upload",
    MaterialAccepted,
    {"materialId": "m-1"},
    {"materialId": "m-1", "document": "tides.txt"},
)
async def process_material(backend: Backend, request: Request, body: MaterialBody) -> Reply:
    """Read a document that was uploaded: a `process-material` on `material-processing`."""
    args = args_of(body, ProcessMaterial)
    job = await submit(backend, request, BY_JOB_ID, "material-processing", "process-material", args, body.jobId)
    return Reply(MaterialAccepted(body.materialId, "processing", job.id), headers=headers_of(job))


@route(
    "POST",
    "/api/jobs/bulk",
    SUBMIT,
    {202: Answer("A line for each.", BulkAccepted, headers=("Retry-After",))},
    examples=({"jobs": [JOB, {**JOB, "id": "mine-2"}]},),
    asks=(TRACED,),
    refuses=(Code.STORE_FULL,),
)
async def submit_jobs(backend: Backend, request: Request, body: BulkBody) -> Reply:
    """Submit many jobs; what is valid is accepted."""
    if IDEMPOTENCY_KEY in request.headers:
        raise WrongField(IDEMPOTENCY_KEY, "is for one job; give each job of a bulk its own id")
    asked = [submission_of(item, request) async for item in in_turns(body.jobs)]
    answers = iter(await _submit_all(backend, asked))
    results = [item if isinstance(item, WrongField) else next(answers) for item in asked]
    refused = sum(isinstance(result, Refused) for result in results)
    lines = [line(*each) async for each in in_turns(enumerate(results))]
    again = {"Retry-After": str(AGAIN_SECONDS)}  # there is no single Location for all of them
    return Reply(BulkAccepted(len(results) - refused, refused, lines), headers=again)


async def _submit_all(backend: Backend, asked: Sequence[Submission | WrongField]) -> list[Submitted | Refused]:
    """Submit what is valid. An error that names jobs names them by their places in the request."""
    valid = [item for item in asked if isinstance(item, Submission)]
    try:
        return await backend.producer.submit_many(valid)
    except StoreError as error:
        if error.job_ids:
            ids = iter(error.job_ids)
            error.job_ids = tuple(next(ids) if isinstance(item, Submission) else None for item in asked)
        raise


async def submit(
    backend: Backend,
    request: Request,
    names: Mapping[str, str],
    platform: str,
    kind: str,
    args: Any,
    key: str | None,
    options: Options = NO_OPTIONS,
) -> Submitted:
    """Submit a job. A refusal names the field by its name in the route's body, or the header that stands for it."""
    named_by = names.get("id", "id")
    options = traced(request, options)
    try:
        return await backend.producer.submit(Submission(platform, kind, args, key_of(request, key, named_by), options))
    except WrongField as error:
        raise WrongField(renamed(error.field, names), error.reason) from None
    except OtherBody as error:
        by_header = IDEMPOTENCY_KEY in request.headers
        raise OtherBody(error.job_id, IDEMPOTENCY_KEY if by_header else named_by) from None


def args_of(body: Body, kind: type[Struct]) -> dict[str, Any]:
    """The args of a kind, of a body that has all their fields; what is null was not said."""
    return {name: value for name in kind.__struct_fields__ if (value := getattr(body, name)) is not None}


def options_of(body: JobBody) -> Options:
    """Raises `WrongField` if they are wrong or contradict each other."""
    return Options(**{name: getattr(body, name) for name in Options.__struct_fields__})


def traced(request: Request, options: Options) -> Options:
    """The options with the trace of the request, unless the body names another. A header that is wrong is ignored."""
    header = None if options.traceparent else traceparent_of(request.headers.get(TRACEPARENT))
    return replace(options, traceparent=header) if header else options


def key_of(request: Request, given: str | None, field: str) -> str | None:
    """The key of the job to be: the body's, else one made of the header `Idempotency-Key`.

    The header is not kept: the same one always makes the same key, and the job itself is what is remembered.
    """
    headers = request.headers.getlist(IDEMPOTENCY_KEY)
    if not headers:
        return given
    if len(headers) > 1 or not re.fullmatch(KEY_HEADER, headers[0]):
        raise WrongField(IDEMPOTENCY_KEY, "must be one header of 1 to 255 visible ASCII characters")
    if given is not None:
        raise WrongField(
            IDEMPOTENCY_KEY,
            f"cannot be combined with {field}, which makes a request idempotent too; send only one of them",
        )
    digest = hashlib.blake2b(headers[0].encode(), digest_size=24).digest()
    return "idem-" + base64.urlsafe_b64encode(digest).decode()


def submission_of(item: Any, request: Request) -> Submission | WrongField:
    """The submission of one job of many, or its error."""
    try:
        body = msgspec.convert(item, JobBody)
        return Submission(body.platform, body.kind, body.args, body.id, traced(request, options_of(body)))
    except msgspec.ValidationError as error:
        return wrong_field(error, JobBody)
    except WrongField as error:
        return error


def line(index: int, result: Submitted | Refused) -> BulkLine:
    """One job of many: where it is, or where it stood in the request and why it was refused."""
    if isinstance(result, Refused):
        field = getattr(result, "field", None)
        return BulkLine(error=BulkRefusal(index, code_of(result).name, field, str(result)))
    return BulkLine(result.id, status_of(result.status), result.deduplicated or UNSET)


def renamed(name: str, names: Mapping[str, str]) -> str:
    """The field by the name of the longest part of its path that has another name here."""
    rest = ""
    while name and name not in names:
        name, dot, last = name.rpartition(".")
        rest = dot + last + rest
    return names.get(name, "") + rest


def headers_of(job: Submitted) -> dict[str, str]:
    """`Location`, and `Idempotency-Replayed` for a request that was accepted before."""
    again = job.replayed and not job.deduplicated
    return {**where(job.id), **({REPLAYED: "true"} if again else {})}
