"""Plans and materials: the two routes of an application that hands long work over, each with a kind of its own."""

from typing import Annotated

from msgspec import Meta, field
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.replies import reply
from tailrace.gateway.routes.bodies import Body, JobKey, read_body
from tailrace.gateway.routes.jobs import accepted
from tailrace.gateway.routes.submissions import key_of, replayed, submit
from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.kinds import Name, Text

NAMES = {"id": "jobId"}  # of the fields of a job, in these bodies


class PlanBody(Body, frozen=True):
    userId: Name
    goal: Text
    materialIds: Annotated[list[Name], Meta(max_length=1000)] = field(default_factory=list)
    planId: Name | None = None
    jobId: JobKey | None = None


class MaterialBody(Body, frozen=True):
    materialId: Name
    document: Name | None = None  # where it was uploaded to; else the consumer looks for one called as the material is
    jobId: JobKey | None = None


class Plans:
    """The routes of plans and materials."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def plan(self, request: Request) -> Response:
        body = await read_body(request, PlanBody)
        args = {"userId": body.userId, "goal": body.goal, "materialIds": body.materialIds}
        if body.planId is not None:
            args["planId"] = body.planId
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("plan-generation", "make-plan", args, key)
        job = await submit(self._producer, request, asked, NAMES)
        return reply({"jobId": job.id, "status": "pending"}, 202, headers(job))

    async def material(self, request: Request) -> Response:
        body = await read_body(request, MaterialBody)
        args = {"materialId": body.materialId}
        if body.document is not None:
            args["document"] = body.document
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("material-processing", "process-material", args, key)
        job = await submit(self._producer, request, asked, NAMES)
        answer = {"materialId": body.materialId, "status": "processing", "jobId": job.id}
        return reply(answer, 202, headers(job))


def headers(job: Submitted) -> dict[str, str]:
    return {**accepted(job.id), **replayed(job)}
