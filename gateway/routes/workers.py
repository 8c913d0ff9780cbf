"""Workers: which consumers live, by what this gateway has seen itself, and asking them to start again."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import ActBody
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import url_path
from tailrace.gateway.route_table import ADMIN, READ, Reply, accepted, group, ok
from tailrace.gateway.routes.platforms import WAIT, seen
from tailrace.gateway.routes.submissions import key_of
from tailrace.streams.errors import NoConsumer
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import About, RefusedWrites
from tailrace.streams.views.presence import ConsumerPresence
from tailrace.streams.words import Count, JobId, PlatformName, Seconds, Time

route = group("workers")

NOTHING = About()
TOLD = ("host", "pid", "version", "started_at", "memory_bytes", "lag_seconds", "refused")  # by a consumer itself


class WorkerSeen(Struct, frozen=True, kw_only=True):
    """A consumer by what this gateway has seen of it; `alive` is null while it has not watched for long enough."""

    worker_id: str
    platforms: Sequence[PlatformName]
    alive: bool | None
    beats: Count
    last_change_seconds: Seconds | None
    watched_seconds: Seconds
    deadline_seconds: Seconds
    jobs: Sequence[JobId]
    host: str | None
    pid: Count | None
    version: str | None
    started_at: Time | None
    memory_bytes: Count | None
    lag_seconds: Seconds | None
    refused: Sequence[RefusedWrites]


class WorkerCounts(Struct, frozen=True):
    alive_count: Count
    silent_count: Count


class WorkersSeen(Struct, frozen=True):
    workers: list[WorkerSeen]
    summary: WorkerCounts


class Restarting(Struct, frozen=True):
    platform: PlatformName
    status: Literal["restarting"]
    workers: list[str]


@route("GET", "/api/v2/workers/status", READ, ok("The consumers.", WorkersSeen, "success"), asks=(WAIT,))
async def list_workers(backend: Backend, request: Request) -> WorkersSeen:
    """Every consumer, by what this gateway has seen of it."""
    consumers = await seen(backend.presence, request)
    told, jobs = await backend.presence.told(), await backend.presence.jobs()
    alive = sum(consumer.alive is True for consumer in consumers)
    workers = [described(each, told.get(each.owner, NOTHING), jobs.get(each.owner, ())) for each in consumers]
    return WorkersSeen(workers, WorkerCounts(alive, len(consumers) - alive))


@route(
    "POST",
    "/api/v2/workers/{platform}/restart",
    ADMIN,
    accepted("They were asked to drain.", Restarting, "success"),
    refuses=(Code.WORKER_SHARED,),
)
async def restart_workers(backend: Backend, request: Request, keys: PlatformKeys, body: ActBody) -> Reply:
    """Ask the consumers of a platform to drain and end; their supervisor starts them again."""
    # The same Idempotency-Key is the same request: a client that got no answer may repeat it.
    name = key_of(request, None, "")
    try:
        owners = await backend.actions.restart(keys.platform, request=name, hidden=backend.hidden, by=body.by)
    except NoConsumer:
        owners = []
    headers = {"Location": url_path("/api/v2/workers/status"), "Retry-After": "2"}
    return Reply(Restarting(keys.platform, "restarting", owners), headers=headers)


def described(consumer: ConsumerPresence, about: About = NOTHING, jobs: Sequence[str] = ()) -> WorkerSeen:
    return WorkerSeen(
        worker_id=consumer.owner,
        platforms=consumer.platforms,
        alive=consumer.alive,
        beats=consumer.beats,
        last_change_seconds=consumer.changed_seconds,
        watched_seconds=consumer.watched_seconds,
        deadline_seconds=consumer.deadline_seconds,
        jobs=jobs,
        **{name: getattr(about, name) for name in TOLD},
    )
