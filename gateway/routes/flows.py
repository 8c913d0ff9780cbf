"""Flows: trees of jobs, what a job spawned, and signals to jobs that await them."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import Body, limit_of
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import JobStatus, status_of
from tailrace.gateway.route_table import ACT, READ, SUBMIT, Answer, Parameter, Reply, accepted, group, ok, up_to
from tailrace.gateway.routes.jobs import Links, links_of, where
from tailrace.gateway.routes.submissions import (
    JOB,
    NEW_WORK,
    ONCE,
    REPLAYED,
    TRACED,
    JobBody,
    headers_of,
    key_of,
    options_of,
    traced,
)
from tailrace.producers.actions import LARGEST_SIGNAL, SignalStatus
from tailrace.producers.flows import children_of
from tailrace.producers.submissions import Submission
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.views.flow import FLOW_LIMIT, FLOW_MOST, FlowJob, read_flow
from tailrace.streams.words import Count, JobId, Percent, PlatformName, Word

route = group("jobs")

BODY_AROUND = 1024  # bytes of a body around the data of a signal
AFTER: Final = Parameter("FlowAfter", "query", "after", "The `next` of the page before.")
LIMIT: Final = Parameter(
    "FlowLimit", "query", "limit", f"Children on a page; {FLOW_LIMIT} unless said.", up_to(FLOW_MOST)
)


class FlowBody(JobBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job and its children, each with children of its own. Only the root has an id."""

    children: list["FlowBody"] = field(default_factory=list)

    def submission(self, key: str | None) -> Submission:
        below = tuple(child.submission(child.id) for child in self.children)
        return Submission(self.platform, self.kind, self.args, key, options_of(self), below)


class FlowAccepted(Struct, frozen=True):
    """The root, in the queue, and the ids that its children will have once it has started."""

    jobId: JobId
    children: list[JobId]
    links: Links


class FlowJobSeen(Struct, frozen=True):
    """A job of a flow; `total` is how many jobs it spawned or submitted, `children` those in this answer."""

    jobId: JobId
    kind: Word | None
    platform: PlatformName
    status: JobStatus
    progress: Percent | None
    total: Count
    children: list["FlowJobSeen"]


class FlowSeen(Struct, frozen=True):
    """A job and a page of its children, by their ids; `next` is where the page after this one begins."""

    jobId: JobId
    status: JobStatus
    total: Count
    children: list[FlowJobSeen]
    next: str | None


class SignalBody(Body, frozen=True):
    data: Annotated[Any, Meta(description="What the job gets.")] = None


class SignalSent(Struct, frozen=True):
    jobId: JobId
    signal: Word
    status: SignalStatus


@group("submit")(
    "POST",
    "/api/flows",
    SUBMIT,
    accepted("In line, all of it.", FlowAccepted, None, REPLAYED),
    examples=({**JOB, "children": [JOB, {**JOB, "children": [JOB]}]},),
    asks=(ONCE, TRACED),
    refuses=NEW_WORK,
)
async def submit_flow(backend: Backend, request: Request, body: FlowBody) -> Reply:
    """Submit a tree of jobs: children first, then the job above them.

    All of it is accepted, or nothing. Up to 10,000 jobs on 20 levels.
    """
    asked = body.submission(key_of(request, body.id, "id"))
    asked = replace(asked, options=traced(request, asked.options))
    job = await backend.producer.submit(asked)
    answer = FlowAccepted(job.id, list(children_of(job.id, asked)), links_of(job.id))
    return Reply(answer, headers=headers_of(job))


@route("GET", "/api/jobs/{job_id}/flow", READ, ok("A page of it.", FlowSeen), asks=(AFTER, LIMIT))
async def show_flow(backend: Backend, request: Request, keys: PlatformKeys, key: str) -> FlowSeen:
    """A job with the jobs that it spawned, at all levels."""
    limit = limit_of(request.query_params.get("limit", str(FLOW_LIMIT)), FLOW_MOST)
    after = request.query_params.get("after", "")
    page = await read_flow(backend.store, keys, key, after=after, limit=limit, shown=backend.platforms.__contains__)
    return FlowSeen(
        page.record.id, status_of(page.record.state), page.total, [seen(job) for job in page.children], page.next
    )


@route(
    "POST",
    "/api/jobs/{job_id}/signals/{name}",
    ACT,
    {202: Answer("Delivered to a job that awaits it, or kept until it does.", SignalSent, headers=("Location",))},
    most=LARGEST_SIGNAL + BODY_AROUND,
    examples=({"data": {"approved": True}},),
    refuses=(Code.JOB_ENDED,),
)
async def send_signal(backend: Backend, request: Request, keys: PlatformKeys, key: str, body: SignalBody) -> Reply:
    """Send a signal to a job. The first one of a name counts."""
    sent = await backend.actions.signal(keys.id(key), request.path_params["name"], body.data)
    return Reply(SignalSent(sent.id, sent.signal, sent.status), headers={"Location": where(sent.id)["Location"]})


def seen(job: FlowJob) -> FlowJobSeen:
    children = [seen(child) for child in job.children]
    return FlowJobSeen(job.id, job.kind, job.platform, status_of(job.state), job.progress, job.total, children)
