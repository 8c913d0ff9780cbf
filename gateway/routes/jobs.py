"""Jobs as they are now: one by its id, and what runs and waits."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct, json
from starlette.requests import Request

from tailrace.gateway.bodies import like
from tailrace.gateway.replies import JobStatus, status_of
from tailrace.gateway.route_table import IF_NONE_MATCH, READ, Reply, group, kept, ok
from tailrace.streams.history.events import End, iso, progress_of, read_end, read_members
from tailrace.streams.history.pages import Histories
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Failure, Record
from tailrace.streams.options import KeptOptions, Priority, Retrying, kept_options
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.replies import JobTimes, read_times
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.census import RunningNow, take_census
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.explain import WaitExplainer
from tailrace.streams.waiting.reasons import Waiting
from tailrace.streams.words import Count, JobId, Ordinal, Percent, PlatformName, Seconds, Time, Word

route = group("jobs")

AGAIN_SECONDS = 1  # after which a client that brought a job may look how it does


class Links(Struct, frozen=True):
    """Where to go from here."""

    self: str
    stream: str
    history: str
    cancel: str


def links_of(job_id: str) -> Links:
    job = f"/api/jobs/{job_id}"
    return Links(job, f"/research/stream/{job_id}", f"/research/history/{job_id}", f"{job}/cancel")


def where(job_id: str) -> dict[str, str]:
    """The headers of every answer that takes a job: where it is seen, and when to look."""
    return {"Location": f"/api/jobs/{job_id}", "Retry-After": str(AGAIN_SECONDS)}


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


class JobSeen(KeptOptions, frozen=True):
    """A job as it is now."""

    jobId: JobId
    status: JobStatus
    progress: Percent | None
    result: Any
    error: Annotated[Any, Meta(extra_json_schema={"anyOf": [like(Failure), {"type": "null"}]})]
    attempt: Ordinal | None
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
    cancel: CalledOff | None
    links: Links
    waiting: Waiting | None  # why it waits, when it does


class Jobs:
    """The routes that tell of jobs."""

    def __init__(self, store: Store, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._store = store
        self._histories = Histories(store)
        self._platforms = platforms
        self._explainer = WaitExplainer(transitions, platforms, presence)

    @route("GET", "/api/jobs/{job_id}", READ, kept("The job.", JobSeen), asks=(IF_NONE_MATCH,))
    async def show_job(self, _: Request, keys: PlatformKeys, key: str) -> Reply:
        """A job as it is now."""
        page, times = await asyncio.gather(self._histories.end(keys, key), read_times(self._store, keys, key))
        record, events = page.record, page.events
        end = read_end(events[-1]) if record.state.ended and events else End()
        waiting = await self._explainer.explain(keys, record, times.run_at_ms, events)
        policy = self._platforms[record.platform]
        job = described(record, progress_of(record.attempt, events), end, policy, times, waiting)
        return Reply(job, tagged=record.state.ended)

    @route("GET", "/api/v2/jobs/running", READ, ok("Both.", RunningNow, "success"))
    async def list_running(self, _: Request) -> RunningNow:
        """What runs, and how many wait."""
        return (await take_census(self._store, self._platforms)).shown()


def described(
    record: Record, progress: float | None, end: End, policy: Policy, times: JobTimes, waiting: Waiting | None
) -> JobSeen:
    worked_on = record.state is State.RUNNING or record.state.ended
    return JobSeen(
        jobId=record.id,
        status=status_of(record.state),
        progress=progress,
        result=end.result,
        error=end.error,
        attempt=record.attempt or None,
        kind=record.kind,
        platform=record.platform,
        priority=record.band,
        createdAt=iso(record.accepted_ms),
        startedAt=time_of(record.started_ms),
        endedAt=time_of(record.ended_ms),
        runAt=time_of(times.run_at_ms) if record.state is State.DELAYED else None,
        expiresAt=end.expiresAt or (None if record.state.ended or record.attempt else time_of(times.expires_ms)),
        workerId=record.owner if worked_on else None,
        failures=record.failures,
        crashes=record.crashes,
        limits=limits_of(record, policy),
        cancel=cancel_of(record, end),
        links=links_of(record.id),
        waiting=waiting,
        **kept_options(record.marks, record.dedupe),
    )


def limits_of(record: Record, policy: Policy) -> JobLimits:
    """What the job was given, else what the policy of its platform gives; None: no limit."""
    said = json.decode(record.options, type=Retrying) if record.options else Retrying()
    timeout = policy.timeout_seconds if said.timeout_seconds is None else said.timeout_seconds
    lifetime = policy.lifetime_seconds if said.lifetime_seconds is None else said.lifetime_seconds
    return JobLimits(
        said.attempts or policy.attempts, policy.max_crashes, policy.max_starts, timeout or None, lifetime or None
    )


def cancel_of(record: Record, end: End) -> CalledOff | None:
    """Who called the job off and why; of a running job: who asked it to stop."""
    if record.state is State.CANCELLED:
        return CalledOff(end.by, end.reason)
    if record.state is State.RUNNING and record.cancel is not None:
        asked = read_members(record.cancel)
        return CalledOff(asked.get("by"), asked.get("reason"))
    return None


def time_of(ms: float | None) -> str | None:
    return None if ms is None else iso(ms)
