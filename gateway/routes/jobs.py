"""Jobs as they are now: one by its id with its args and steps, and what runs and waits."""

import asyncio
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import like
from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import JobStatus, status_of, url_path
from tailrace.gateway.route_table import IF_NONE_MATCH, READ, Parameter, Reply, group, kept, ok
from tailrace.streams.history.events import End, iso, progress_of, read_end, read_members
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Failure, Record
from tailrace.streams.options import KeptOptions, Priority, kept_options, marks_of
from tailrace.streams.policies import Policy, rules_for
from tailrace.streams.replies import JobTimes, read_args, read_record, read_step, read_step_names, read_times
from tailrace.streams.states import State
from tailrace.streams.views.census import RunningNow, take_census
from tailrace.streams.waiting.awaited import Awaited, awaited
from tailrace.streams.waiting.reasons import WhyWaiting
from tailrace.streams.words import Count, JobId, Ordinal, Percent, PlatformName, Seconds, Time, Word

route = group("jobs")

STEP_NAME: Final = Parameter("StepName", "query", "name", "Which step.")

AGAIN_SECONDS = 1  # after which a client that brought a job may look how it does


class Links(Struct, frozen=True):
    """Links to the job's other routes."""

    self: str
    stream: str
    history: str
    cancel: str


def links_of(job_id: str) -> Links:
    job = url_path(f"/api/jobs/{job_id}")
    return Links(job, url_path(f"/research/stream/{job_id}"), url_path(f"/research/history/{job_id}"), f"{job}/cancel")


def where(job_id: str) -> dict[str, str]:
    """The headers of an answer that accepts a job: `Location` and `Retry-After`."""
    return {"Location": url_path(f"/api/jobs/{job_id}"), "Retry-After": str(AGAIN_SECONDS)}


class JobLimits(Struct, frozen=True):
    """The limits of the job, else those of its platform; null: no limit."""

    attempts: Count
    crashes: Count
    starts: Count
    timeoutSeconds: Seconds | None
    lifetimeSeconds: Seconds | None


class CalledOff(Struct, frozen=True):
    """The cancellation of a job: by whom and why."""

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
    waiting: WhyWaiting | None  # why it waits, when it does
    awaits: Awaited | None  # the signal or the children that it waits for without a worker
    parent: JobId | None  # the job that spawned it


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
    """The saved value of a step."""

    jobId: JobId
    name: str
    value: Any


@route("GET", "/api/jobs/{job_id}", READ, kept("The job.", JobSeen), asks=(IF_NONE_MATCH,))
async def show_job(backend: Backend, _: Request, keys: PlatformKeys, key: str) -> Reply:
    """A job as it is now."""
    page, times = await asyncio.gather(backend.histories.end(keys, key), read_times(backend.store, keys, key))
    record, events = page.record, page.events
    end = read_end(events[-1]) if record.state.ended and events else End()
    waiting = await backend.explainer.explain(keys, record, times.run_at_ms, events)
    policy = backend.platforms[record.platform]
    job = described(record, progress_of(record.attempt, events), end, policy, times, waiting)
    return Reply(job, tagged=record.state.ended)


@route("GET", "/api/v2/jobs/running", READ, ok("Both.", RunningNow, "success"))
async def list_running(backend: Backend, _: Request) -> RunningNow:
    """Running jobs, and how many wait."""
    return (await take_census(backend.store, backend.platforms)).shown()


@route("GET", "/api/jobs/{job_id}/args", READ, ok("The args.", ArgsSeen))
async def args_of_job(backend: Backend, _: Request, keys: PlatformKeys, key: str) -> ArgsSeen:
    """The args of a job."""
    record = await read_record(backend.store, keys, key)
    args = await read_args(backend.store, keys, record)
    return ArgsSeen(record.id, args is not None, Raw(args or b"null"))


@route(
    "GET",
    "/api/jobs/{job_id}/steps",
    READ,
    ok("The names, or the one.", (StepsSeen, StepSeen)),
    asks=(STEP_NAME,),
    refuses=(Code.STEP_NOT_FOUND,),
)
async def steps_of_job(backend: Backend, request: Request, keys: PlatformKeys, key: str) -> StepsSeen | StepSeen:
    """The names of the steps a job has saved; with `name`, what that one gave."""
    record = await read_record(backend.store, keys, key)
    name = request.query_params.get("name")
    if name is None:
        return StepsSeen(record.id, await read_step_names(backend.store, keys, key))
    value = await read_step(backend.store, keys, key, name)
    if value is None:
        raise Refusal(Code.STEP_NOT_FOUND, f"job {record.id} has not saved a step of this name")
    return StepSeen(record.id, name, Raw(value))


def described(
    record: Record, progress: float | None, end: End, policy: Policy, times: JobTimes, waiting: WhyWaiting | None
) -> JobSeen:
    facts: dict[str, Any] = {**facts_of(record), **kept_options(record.marks, record.dedupe)}
    return JobSeen(
        **facts,
        progress=progress,
        result=end.result,
        error=end.error,
        platform=record.platform,
        runAt=time_of(times.run_at_ms) if record.state is State.DELAYED else None,
        expiresAt=end.expiresAt or (None if record.state.ended or record.attempt else time_of(times.expires_ms)),
        limits=limits_of(record, policy),
        cancel=cancel_of(record, end),
        links=links_of(record.id),
        waiting=waiting,
        awaits=awaited(record),
        parent=marks_of(record.marks).get("parent"),
    )


def facts_of(record: Record) -> dict[str, Any]:
    """The fields of a job that both its own answer and lists have."""
    return {
        "jobId": record.id,
        "status": status_of(record.state),
        "kind": record.kind,
        "priority": record.band,
        "attempt": record.attempt or None,
        "failures": record.failures,
        "crashes": record.crashes,
        "createdAt": iso(record.accepted_ms),
        "startedAt": time_of(record.started_ms),
        "endedAt": time_of(record.ended_ms),
        "workerId": record.owner if record.state is State.RUNNING or record.state.ended else None,
    }


def limits_of(record: Record, policy: Policy) -> JobLimits:
    """The limits of the job, else those of its platform's policy; None: no limit."""
    rules = rules_for(policy, record.options)
    timeout, lifetime = rules.timeout_seconds or None, rules.lifetime_seconds or None
    return JobLimits(rules.attempts, rules.max_crashes, rules.max_starts, timeout, lifetime)


def cancel_of(record: Record, end: End) -> CalledOff | None:
    """The cancellation of a job, or the request to a running one: by whom and why."""
    if record.state is State.CANCELLED:
        return CalledOff(end.by, end.reason)
    if record.state is State.RUNNING and record.cancel is not None:
        asked = read_members(record.cancel)
        return CalledOff(asked.get("by"), asked.get("reason"))
    return None


def time_of(ms: float | None) -> str | None:
    return None if ms is None else iso(ms)
