"""What the routes answer about jobs and consumers, as shapes: the document is made of them.

The routes themselves build plain objects: these shapes decode nothing and cost no request anything. The tests hold
every answer to them.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tailrace.gateway.routes.bodies import JobId, PlatformName, Word
from tailrace.streams.messages import Failure, RefusedWrites
from tailrace.streams.options import Priority
from tailrace.streams.waiting.reasons import Waiting

Time = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", extra_json_schema={"format": "date-time"})
]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Attempt = Annotated[int, Meta(ge=1)]
JobStatus = Literal["waiting", "active", "delayed", "waiting-children", "completed", "failed", "cancelled"]


class Links(Struct, frozen=True):
    """Where to go from here."""

    self: str
    stream: str
    history: str
    cancel: str


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


class PlanAccepted(Struct, frozen=True):
    jobId: JobId
    status: Literal["pending"]


class MaterialAccepted(Struct, frozen=True):
    materialId: str
    status: Literal["processing"]
    jobId: JobId


class WorkflowAccepted(Struct, frozen=True):
    job_id: JobId
    workflow_id: str
    platform: PlatformName
    status: JobStatus


class BulkRefusal(Struct, frozen=True):
    """Why one job of many was refused, and where it stood in the request."""

    index: Count
    code: Literal["WRONG_FIELD", "OTHER_BODY", "PLATFORM_FORBIDDEN"]
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


class JobLimits(Struct, frozen=True):
    """What the job was given, else what its platform gives; null: no limit."""

    attempts: Count
    crashes: Count
    starts: Count
    timeoutSeconds: Seconds | None
    lifetimeSeconds: Seconds | None


class CalledOff(Struct, frozen=True):
    """Who called a job off, and why."""

    by: str | None
    reason: str | None


class JobSeen(Struct, frozen=True):
    """A job as it is now."""

    jobId: JobId
    status: JobStatus
    progress: Percent | None
    result: Any
    error: Failure | None
    attempt: Attempt | None
    kind: Word
    platform: PlatformName
    priority: Priority
    createdAt: Time
    startedAt: Time | None
    endedAt: Time | None
    runAt: Time | None
    expiresAt: Time | None
    workerId: str | None
    failures: Count
    crashes: Count
    limits: JobLimits
    orderKey: str | None
    limitKey: str | None
    dedupeKey: str | None
    cancel: CalledOff | None
    links: Links
    waiting: Waiting | None  # why it waits, when it does


class ArgsSeen(Struct, frozen=True):
    """`kept` tells args that are gone, as those of a completed job are, from args that are null."""

    jobId: JobId
    kept: bool
    args: Any


class StepsSeen(Struct, frozen=True):
    """The names of the steps that were saved."""

    jobId: JobId
    steps: list[str]


class StepSeen(Struct, frozen=True):
    """What one of them gave."""

    jobId: JobId
    name: str
    value: Any


class Acted(Struct, frozen=True):
    jobId: JobId
    status: Literal["cancelled", "cancelling", "waiting"]
    links: Links


class Dropped(Struct, frozen=True):
    jobId: JobId
    status: Literal["dropped"]


class JobRunning(Struct, frozen=True):
    platform: PlatformName
    job_id: JobId
    workflow_id: str
    started_at: Time
    elapsed_seconds: Seconds
    progress: Percent | None


class RunningCounts(Struct, frozen=True):
    running_count: Count
    queued_count: Count


class RunningNow(Struct, frozen=True):
    """What runs, and how many jobs wait on which platform."""

    running: list[JobRunning]
    queued: dict[str, Count]
    summary: RunningCounts


class WorkerSeen(Struct, frozen=True):
    """A consumer by what this gateway has seen of it; `alive` is null while it has not watched for long enough."""

    worker_id: str
    platforms: list[PlatformName]
    alive: bool | None
    beats: Count
    last_change_seconds: Seconds | None
    watched_seconds: Seconds
    deadline_seconds: Seconds
    jobs: list[JobId]
    host: str | None
    pid: Count | None
    version: str | None
    started_at: Time | None
    memory_bytes: Count | None
    lag_seconds: Seconds | None
    refused: list[RefusedWrites]


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


class LargeEvent(Struct, frozen=True):
    """Stands for an event that is too large for the stream of all jobs; the history of its job has it."""

    jobId: JobId
    seq: Attempt
    status: Literal["large"]
