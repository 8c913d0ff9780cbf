"""Plans and materials: the two routes of an application that hands long work over, each with a kind of its own."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from starlette.requests import Request

from tailrace.gateway.bodies import Body
from tailrace.gateway.route_table import SUBMIT, Reply, accepted, group
from tailrace.gateway.routes.submissions import NEW_WORK, ONCE, REPLAYED, headers_of, key_of, submit
from tailrace.producers import Producer, Submission
from tailrace.producers.kinds import Name, Text
from tailrace.streams.words import JobId, JobKey

route = group("submit")

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


class PlanAccepted(Struct, frozen=True):
    jobId: JobId
    status: Literal["pending"]


class MaterialAccepted(Struct, frozen=True):
    materialId: str
    status: Literal["processing"]
    jobId: JobId


class PlanRoutes:
    """The routes of plans and materials."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    @route(
        "POST",
        "/api/plans",
        SUBMIT,
        accepted("In line.", PlanAccepted, None, REPLAYED),
        takes=PlanBody,
        examples=({"userId": "u-1", "goal": "read the sea", "materialIds": ["m-1"]},),
        asks=(ONCE,),
        refuses=NEW_WORK,
    )
    async def make_plan(self, request: Request, body: PlanBody) -> Reply:
        """Make a study plan: a `make-plan` on `plan-generation`."""
        args = {"userId": body.userId, "goal": body.goal, "materialIds": body.materialIds}
        if body.planId is not None:
            args["planId"] = body.planId
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("plan-generation", "make-plan", args, key)
        job = await submit(self._producer, request, asked, NAMES)
        return Reply(PlanAccepted(job.id, "pending"), headers=headers_of(job, asked))

    @route(
        "POST",
        "/api/materials/complete-upload",
        SUBMIT,
        accepted("In line.", MaterialAccepted, None, REPLAYED),
        takes=MaterialBody,
        examples=({"materialId": "m-1"}, {"materialId": "m-1", "document": "tides.txt"}),
        asks=(ONCE,),
        refuses=NEW_WORK,
    )
    async def process_material(self, request: Request, body: MaterialBody) -> Reply:
        """Read a document that was uploaded: a `process-material` on `material-processing`."""
        args = {"materialId": body.materialId}
        if body.document is not None:
            args["document"] = body.document
        key = key_of(request, body.jobId, "jobId")
        asked = Submission("material-processing", "process-material", args, key)
        job = await submit(self._producer, request, asked, NAMES)
        return Reply(MaterialAccepted(body.materialId, "processing", job.id), headers=headers_of(job, asked))
