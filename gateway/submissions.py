"""Submissions: the routes that bring work, each with the body it takes."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field
from starlette.requests import Request
from starlette.responses import Response

from gateway.bodies import Body, read_body, wrong_field
from gateway.jobs import links_of, status_of
from gateway.replies import code_of, reply
from producers import Producer, Submission, Submitted
from producers.kinds import KINDS, Name, Text
from streams.errors import Refused, WrongField
from streams.options import Options

BULK = 10_000


class ResearchBody(Body, frozen=True):
    query: Text
    jobId: str | None = None


class JobBody(Options, Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job, with all that can be said of one."""

    platform: str
    kind: str
    args: Any = field(default_factory=dict)
    id: str | None = None


class BulkBody(Body, frozen=True):
    jobs: Annotated[list[Any], Meta(max_length=BULK)]


class WorkflowBody(Body, frozen=True):
    workflow_id: Name
    params: dict[str, Any] = field(default_factory=dict)
    priority: str = "normal"
    jobId: str | None = None


class Submissions:
    """The routes that bring work."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def research(self, request: Request) -> Response:
        body = await read_body(request, ResearchBody)
        asked = Submission("research", "research", {"query": body.query}, body.jobId)
        job = await self._submit(asked, {"id": "jobId", "args.query": "query"})
        links = links_of(job.job_id)
        answer = {
            "jobId": job.job_id,
            "status": "queued",
            "message": "The research was accepted; follow it at streamUrl.",
            "streamUrl": links["stream"],
            "historyUrl": links["history"],
        }
        return reply(answer, 202, replayed(job))

    async def job(self, request: Request) -> Response:
        body = await read_body(request, JobBody)
        job = await self._submit(submission(body), {})
        links = links_of(job.job_id)
        answer = {"jobId": job.job_id, "status": status_of(job.state), "links": links}
        return reply(answer, 202, {"Location": links["self"], **replayed(job)})

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
        asked = Submission(platform, kind, args, body.jobId, Options(priority=body.priority))
        job = await self._submit(asked, {"id": "jobId", "platform": "params.platform", "args": "params"})
        data = {
            "job_id": job.job_id,
            "workflow_id": body.workflow_id,
            "platform": platform,
            "status": status_of(job.state),
        }
        return reply({"success": True, "data": data}, 202, replayed(job))

    async def jobs(self, request: Request) -> Response:
        """Many at once: what is valid is accepted, the rest is named."""
        body = await read_body(request, BulkBody)
        bodies = [checked(item) for item in body.jobs]
        asked = [submission(item) for item in bodies if isinstance(item, JobBody)]
        answers = iter(await self._producer.submit_many(asked))
        results = [item if isinstance(item, WrongField) else next(answers) for item in bodies]
        refused = sum(isinstance(result, Refused) for result in results)
        answer = {
            "accepted": len(results) - refused,
            "refused": refused,
            "jobs": [line(result) for result in results],
        }
        return reply(answer, 202)

    async def _submit(self, asked: Submission, names: Mapping[str, str]) -> Submitted:
        """Submit; a refusal names the field by its name in this route's body."""
        try:
            return await self._producer.submit(asked)
        except WrongField as error:
            raise WrongField(renamed(error.field, names), error.reason) from None


def options_of(body: JobBody) -> Options:
    return Options(**{name: getattr(body, name) for name in Options.__struct_fields__})


def submission(body: JobBody) -> Submission:
    return Submission(body.platform, body.kind, body.args, body.id, options_of(body))


def checked(item: Any) -> JobBody | WrongField:
    try:
        return msgspec.convert(item, JobBody)
    except msgspec.ValidationError as error:
        return wrong_field(error)
    except WrongField as error:
        return error


def line(result: Submitted | Refused) -> dict[str, Any]:
    if isinstance(result, Submitted):
        return {"jobId": result.job_id, "status": status_of(result.state)}
    error = {"code": code_of(result), "field": getattr(result, "field", None), "detail": str(result)}
    return {"error": error}


def renamed(name: str, names: Mapping[str, str]) -> str:
    root, dot, rest = name.partition(".")
    return names.get(name) or names.get(root, root) + dot + rest


def replayed(job: Submitted) -> dict[str, str]:
    return {"Idempotency-Replayed": "true"} if job.replayed else {}
