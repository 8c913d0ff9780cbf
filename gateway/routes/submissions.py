"""Submissions: the routes that bring work, each with the body it takes."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.replies import code_of, reply
from tailrace.gateway.routes.bodies import SCHEMAS, Args, Body, JobKey, PlatformName, Word, read_body, wrong_field
from tailrace.gateway.routes.jobs import AGAIN_SECONDS, accepted, links_of, status_of
from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.kinds import KINDS, Name, Text
from tailrace.streams.errors import OtherBody, Refused, StoreError, WrongField
from tailrace.streams.keys import join_id
from tailrace.streams.options import Options, Priority
from tailrace.streams.process.turns import in_turns

BULK = 10_000
IDEMPOTENCY_KEY = "Idempotency-Key"
_VISIBLE = re.compile(r"[!-~]{1,255}")


class ResearchBody(Body, frozen=True):
    query: Text
    jobId: JobKey | None = None


class JobBody(Options, Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job, with all that can be said of one."""

    platform: PlatformName
    kind: Word
    args: Args = field(default_factory=dict)
    id: JobKey | None = None


class BulkBody(Body, frozen=True):
    # Each is decoded for itself: one that is wrong does not spoil the others.
    jobs: Annotated[list[Any], Meta(max_length=BULK, extra_json_schema={"items": {"$ref": SCHEMAS + "JobBody"}})]


class WorkflowBody(Body, frozen=True):
    workflow_id: Name
    params: dict[str, Any] = field(default_factory=dict)
    priority: Priority = "normal"
    jobId: JobKey | None = None


class Submissions:
    """The routes that bring work."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def research(self, request: Request) -> Response:
        body = await read_body(request, ResearchBody)
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("research", "research", {"query": body.query}, key)
        job = await submit(self._producer, request, asked, {"id": "jobId", "args.query": "query"})
        links = links_of(job.id)
        answer = {
            "jobId": job.id,
            "status": "queued",
            "message": "The research was accepted; follow it at streamUrl.",
            "streamUrl": links["stream"],
            "historyUrl": links["history"],
        }
        return reply(answer, 202, {**accepted(job.id), **replayed(job, asked)})

    async def job(self, request: Request) -> Response:
        body = await read_body(request, JobBody)
        asked = submission(body, key_of(request, body.id, "id"))
        job = await submit(self._producer, request, asked, {})
        links = links_of(job.id)
        answer: dict[str, Any] = {"jobId": job.id, "status": status_of(job.status), "links": links}
        if deduplicated(asked, job):
            answer["deduplicated"] = True
        return reply(answer, 202, {**accepted(job.id), **replayed(job, asked)})

    async def workflow(self, request: Request) -> Response:
        body = await read_body(request, WorkflowBody)
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
        data = {
            "job_id": job.id,
            "workflow_id": body.workflow_id,
            "platform": platform,
            "status": status_of(job.status),
        }
        headers = {**accepted(job.id), **replayed(job, asked)}
        return reply({"success": True, "data": data}, 202, headers)

    async def jobs(self, request: Request) -> Response:
        """Many at once: what is valid is accepted, the rest is named."""
        if IDEMPOTENCY_KEY in request.headers:
            raise WrongField(IDEMPOTENCY_KEY, "is for one job; give each job of a bulk its own id")
        body = await read_body(request, BulkBody)
        bodies = [checked(item) async for item in in_turns(body.jobs)]
        asked = [item if isinstance(item, WrongField) else submission(item, item.id) async for item in in_turns(bodies)]
        answers = iter(await self._submit_all(asked))
        results = [item if isinstance(item, WrongField) else next(answers) for item in asked]
        refused = sum(isinstance(result, Refused) for result in results)
        lines = [line(*each) async for each in in_turns(zip(range(len(results)), asked, results, strict=True))]
        again = {"Retry-After": str(AGAIN_SECONDS)}  # there is no one place to look for all of them
        return reply({"accepted": len(results) - refused, "refused": refused, "jobs": lines}, 202, again)

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
    return Options(**{name: getattr(body, name) for name in Options.__struct_fields__})


def submission(body: JobBody, key: str | None) -> Submission:
    return Submission(body.platform, body.kind, body.args, key, options_of(body))


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


def checked(item: Any) -> JobBody | WrongField:
    try:
        return msgspec.convert(item, JobBody)
    except msgspec.ValidationError as error:
        return wrong_field(error, JobBody)
    except WrongField as error:
        return error


def line(index: int, asked: Submission | WrongField, result: Submitted | Refused) -> dict[str, Any]:
    """One job of many: where it is, or where it stood in the request and why it was refused."""
    if isinstance(result, Refused):
        field = getattr(result, "field", None)
        return {"error": {"index": index, "code": code_of(result).name, "field": field, "detail": str(result)}}
    told: dict[str, Any] = {"jobId": result.id, "status": status_of(result.status)}
    if isinstance(asked, Submission) and deduplicated(asked, result):
        told["deduplicated"] = True
    return told


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


def replayed(job: Submitted, asked: Submission | None = None) -> dict[str, str]:
    """Says that this very request was accepted before; another job's dedupe key is another matter."""
    again = job.replayed and not (asked and deduplicated(asked, job))
    return {"Idempotency-Replayed": "true"} if again else {}
