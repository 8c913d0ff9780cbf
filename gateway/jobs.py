"""Jobs as they are now: one by its id, what runs and waits, and calling one off."""

from typing import Any

from msgspec import Raw, Struct, json
from starlette.requests import Request
from starlette.responses import Response

from gateway.bodies import Nothing, read_body
from gateway.fold import visible
from gateway.replies import Refusal, reply
from streams.census import describe, take_census
from streams.connection import Store
from streams.errors import JobNotFound, WrongField
from streams.events import iso, progress_of
from streams.keys import PlatformKeys, split_id
from streams.messages import Record
from streams.policies import Platforms
from streams.reading import read_job
from streams.states import State
from streams.transitions import Transitions

STATUS = {State.RUNNING: "active", State.AWAITING: "waiting-children"}
"""The seeds' words over HTTP, where they are not ours."""


def status_of(state: State) -> str:
    return STATUS.get(state, state.value)


def links_of(job_id: str) -> dict[str, str]:
    return {
        "self": f"/api/jobs/{job_id}",
        "stream": f"/research/stream/{job_id}",
        "history": f"/research/history/{job_id}",
        "cancel": f"/api/jobs/{job_id}/cancel",
    }


LAST = -2  # of a job that runs: its last report, or its start after whatever came before


class End(Struct):
    """What the last event of a job holds beside the usual; passed on as it was written."""

    result: Raw = Raw(b"null")
    error: Raw = Raw(b"null")


class Jobs:
    """The routes that tell of jobs."""

    def __init__(self, store: Store, transitions: Transitions, platforms: Platforms) -> None:
        self._store = store
        self._transitions = transitions
        self._platforms = platforms
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
        record, events = await read_job(self._store, keys, key, first=LAST)
        end = End()
        if record.state.ended:
            record, events = await read_job(self._store, keys, key)
            events = [raw for _, raw in visible(record.id, events)]
            if events:
                end = json.decode(events[-1], type=End)
        return reply({"data": description(record, progress_of(record.attempt, events), end)})

    async def cancel(self, request: Request) -> Response:
        keys, key = self.locate(request)
        await read_body(request, Nothing)
        match await self._transitions.cancel(keys, key):
            case "missing":
                raise JobNotFound(keys.id(key))
            case "running":
                raise Refusal(409, "JOB_RUNNING", f"job {keys.id(key)} is running; only a waiting job can be cancelled")
            case "ended":
                raise Refusal(409, "JOB_ENDED", f"job {keys.id(key)} has ended; there is nothing left to cancel")
        return reply({"jobId": keys.id(key), "status": status_of(State.CANCELLED), "links": links_of(keys.id(key))})

    async def running(self, _: Request) -> Response:
        return reply(describe(await take_census(self._store, self._platforms)))


def description(record: Record, progress: float | None, end: End) -> dict[str, Any]:
    worked_on = record.state is State.RUNNING or record.state.ended
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
        "workerId": record.owner if worked_on else None,
        "links": links_of(record.id),
    }


def time_of(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
