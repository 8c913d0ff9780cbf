"""Acts on one job: cancel, retry, drop."""

from typing import Literal

from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import ActBody
from tailrace.gateway.problems import Code
from tailrace.gateway.route_table import ACT, Answer, Reply, accepted, group, ok
from tailrace.gateway.routes.jobs import Links, links_of, where
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.words import JobId

route = group("jobs")

HEARD_SECONDS = 2  # a running attempt is cancelled with the next beat of its consumer
NOT_SO = (Code.JOB_ENDED, Code.JOB_NOT_ENDED)


class Acted(Struct, frozen=True):
    jobId: JobId
    status: Literal["cancelled", "cancelling"]
    links: Links


class Retried(Struct, frozen=True):
    """`failedChild`: the job failed by this one below it. Retry that one: it brings those above it back by itself."""

    jobId: JobId
    status: Literal["waiting"]
    failedChild: JobId | None
    links: Links


class Dropped(Struct, frozen=True):
    jobId: JobId
    status: Literal["dropped"]


@route(
    "POST",
    "/api/jobs/{job_id}/cancel",
    ACT,
    {
        200: Answer("Cancelled, now or before.", Acted),
        202: Answer("Asked to stop: it can only end cancelled.", Acted, headers=("Location", "Retry-After")),
    },
    examples=({"by": "night shift", "reason": "not wanted any more"},),
    refuses=(Code.JOB_ENDED,),
)
async def cancel_job(backend: Backend, _: Request, keys: PlatformKeys, key: str, body: ActBody) -> Reply:
    """Cancel a job, or ask its running attempt to stop."""
    done = await backend.actions.cancel(keys.id(key), by=body.by, reason=body.reason)
    if done.status == "cancelling":
        headers = {**where(done.id), "Retry-After": str(HEARD_SECONDS)}
        return Reply(Acted(done.id, "cancelling", links_of(done.id)), 202, headers)
    return Reply(Acted(done.id, "cancelled", links_of(done.id)))


@route(
    "POST",
    "/api/jobs/{job_id}/retry",
    ACT,
    accepted("It waits again.", Retried),
    examples=({"by": "night shift"},),
    refuses=(*NOT_SO, Code.STORE_FULL),
)
async def retry_job(backend: Backend, _: Request, keys: PlatformKeys, key: str, body: ActBody) -> Reply:
    """Run a failed or cancelled job again."""
    done = await backend.actions.retry(keys.id(key), by=body.by, reason=body.reason)
    return Reply(Retried(done.id, "waiting", done.failed_child, links_of(done.id)), headers=where(done.id))


@route("POST", "/api/jobs/{job_id}/drop", ACT, ok("Gone.", Dropped, None), refuses=NOT_SO)
@route("DELETE", "/api/jobs/{job_id}", ACT, ok("Gone.", Dropped, None), id="deleteJob", refuses=NOT_SO)
async def drop_job(backend: Backend, _: Request, keys: PlatformKeys, key: str, body: ActBody) -> Dropped:
    """Remove a failed or cancelled job with its history."""
    done = await backend.actions.drop(keys.id(key), by=body.by)
    return Dropped(done.id, "dropped")
