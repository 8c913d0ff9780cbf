"""Jobs as they are now: one by its id, what runs and waits, and acting on one."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct, json
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.etags import tagged_reply
from tailrace.gateway.live.history_pages import Histories
from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import raw_reply, reply
from tailrace.gateway.routes.bodies import ActBody, read_body
from tailrace.streams.errors import JobNotFound, WrongField
from tailrace.streams.history.events import iso, progress_of
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.marks import marks_of
from tailrace.streams.messages import Record, encode
from tailrace.streams.options import Retrying
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.replies import JobTimes, read_times
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.census import describe, take_census
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.explain import Lookout

STATUS = {State.RUNNING: "active", State.AWAITING: "waiting-children"}
"""The seeds' words over HTTP, where they are not ours."""

AGAIN_SECONDS = 1  # after which whoever brought a job may look how it does
HEARD_SECONDS = 2  # a running attempt hears that it is to stop with the next beat of its consumer


def status_of(state: State) -> str:
    return STATUS.get(state, state.value)


def links_of(job_id: str) -> dict[str, str]:
    return {
        "self": f"/api/jobs/{job_id}",
        "stream": f"/research/stream/{job_id}",
        "history": f"/research/history/{job_id}",
        "cancel": f"/api/jobs/{job_id}/cancel",
    }


def accepted(job_id: str) -> dict[str, str]:
    """The headers of every answer that takes a job: where it is seen, and when to look."""
    return {"Location": links_of(job_id)["self"], "Retry-After": str(AGAIN_SECONDS)}


class End(Struct):
    """What the last event of a job holds beside the usual; passed on as it was written."""

    result: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    by: str | None = None
    reason: str | None = None
    expiresAt: str | None = None  # of one that was not started in time


class Jobs:
    """The routes that tell of jobs and act on one."""

    def __init__(self, store: Store, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._store = store
        self._histories = Histories(store)
        self._transitions = transitions
        self._platforms = platforms
        self._lookout = Lookout(transitions, platforms, presence)
        self._keys = {platform: PlatformKeys(platform) for platform in platforms}

    def locate(self, request: Request) -> tuple[PlatformKeys, str]:
        """The keys of the job in a request's path; whatever cannot be the id of a kept job is not found."""
        job_id: str = request.path_params["job_id"]
        job = self.find(job_id)
        if job is None:
            raise JobNotFound(job_id[:100])
        return job

    def find(self, job_id: str) -> tuple[PlatformKeys, str] | None:
        try:
            platform, key = split_id(job_id)
            return self._keys[platform], key
        except (WrongField, LookupError):
            return None

    async def show(self, request: Request) -> Response:
        keys, key = self.locate(request)
        page, times = await asyncio.gather(self._histories.end(keys, key), read_times(self._store, keys, key))
        record, events = page.record, page.events
        end = End()
        if record.state.ended and events:
            end = json.decode(events[-1], type=End)
        policy = self._platforms[record.platform]
        job = description(record, progress_of(record.attempt, events), end, policy, times)
        job["waiting"] = await self._lookout.explain(keys, record, times.run_at_ms, events)
        body = encode({"data": job})
        return tagged_reply(request, body) if record.state.ended else raw_reply(body)

    async def cancel(self, request: Request) -> Response:
        """End a job that nobody runs, or ask its attempt to stop. The answer is what the store decided."""
        keys, key = self.locate(request)
        word = await self._transitions.cancel(keys, key, said(await read_body(request, ActBody)))
        if word == "cancelling":
            headers = {"Location": links_of(keys.id(key))["self"], "Retry-After": str(HEARD_SECONDS)}
            return reply(acted(keys, key, word), 202, headers)
        if word in {"ok", "again"}:
            return reply(acted(keys, key, State.CANCELLED))
        raise refused(keys, key, word, "there is nothing left to cancel")

    async def retry(self, request: Request) -> Response:
        """Give a failed or cancelled job another life."""
        keys, key = self.locate(request)
        word = await self._transitions.reopen(keys, key, said(await read_body(request, ActBody)))
        if word != "ok":
            raise refused(keys, key, word, "only a failed or a cancelled job can be retried")
        return reply(acted(keys, key, State.WAITING), 202, accepted(keys.id(key)))

    async def drop(self, request: Request) -> Response:
        """Remove a failed or cancelled job with its history."""
        keys, key = self.locate(request)
        await read_body(request, ActBody)
        word = await self._transitions.drop(keys, key)
        if word != "ok":
            raise refused(keys, key, word, "only a failed or a cancelled job can be dropped")
        return reply({"jobId": keys.id(key), "status": "dropped"})

    async def running(self, _: Request) -> Response:
        return reply(describe(await take_census(self._store, self._platforms)))


def said(body: ActBody) -> bytes:
    """Who asked and why, as members of an event."""
    told = {name: value for name in ("by", "reason") if (value := getattr(body, name)) is not None}
    return b"," + encode(told)[1:-1] if told else b""


def acted(keys: PlatformKeys, key: str, status: str) -> dict[str, Any]:
    return {"jobId": keys.id(key), "status": status, "links": links_of(keys.id(key))}


def refused(keys: PlatformKeys, key: str, word: str, why: str) -> Exception:
    """The job is in a state that does not allow it."""
    if word == "missing":
        return JobNotFound(keys.id(key))
    state = State(word)
    how = f"has ended: {status_of(state)}" if state.ended else f"has not ended: {status_of(state)}"
    code = Code.JOB_ENDED if state.ended else Code.JOB_NOT_ENDED
    return Refusal(code, f"job {keys.id(key)} {how}; {why}", state=status_of(state))


def description(record: Record, progress: float | None, end: End, policy: Policy, times: JobTimes) -> dict[str, Any]:
    worked_on, marks = record.state is State.RUNNING or record.state.ended, marks_of(record.marks)
    return {
        "jobId": record.id,
        "status": status_of(record.state),
        "progress": progress,
        "result": end.result,
        "error": end.error,
        "attempt": record.attempt or None,
        "kind": record.kind,
        "platform": record.platform,
        "priority": record.band,
        "createdAt": iso(record.accepted_ms),
        "startedAt": time_of(record.started_ms),
        "endedAt": time_of(record.ended_ms),
        "runAt": time_of(times.run_at_ms) if record.state is State.DELAYED else None,
        "expiresAt": end.expiresAt or (None if record.state.ended or record.attempt else time_of(times.expires_ms)),
        "workerId": record.owner if worked_on else None,
        "failures": record.failures,
        "crashes": record.crashes,
        "limits": limits_of(record, policy),
        "orderKey": marks.get("order"),
        "limitKey": marks.get("limit"),
        "dedupeKey": record.dedupe,
        "cancel": cancel_of(record, end),
        "links": links_of(record.id),
    }


def limits_of(record: Record, policy: Policy) -> dict[str, float | None]:
    """What the job was given, else what the policy of its platform gives; None: no limit."""
    said = json.decode(record.options, type=Retrying) if record.options else Retrying()
    timeout = policy.timeout_seconds if said.timeout_seconds is None else said.timeout_seconds
    lifetime = policy.lifetime_seconds if said.lifetime_seconds is None else said.lifetime_seconds
    return {
        "attempts": said.attempts or policy.attempts,
        "crashes": policy.max_crashes,
        "starts": policy.max_starts,
        "timeoutSeconds": timeout or None,
        "lifetimeSeconds": lifetime or None,
    }


def cancel_of(record: Record, end: End) -> Mapping[str, str | None] | None:
    """Who called the job off and why; of a running job: who asked it to stop."""
    if record.state is State.CANCELLED:
        return {"by": end.by, "reason": end.reason}
    if record.state is State.RUNNING and record.cancel is not None:
        asked = json.decode("{" + record.cancel.removeprefix(",") + "}", type=End)
        return {"by": asked.by, "reason": asked.reason}
    return None


def time_of(ms: float | None) -> str | None:
    return None if ms is None else iso(ms)
