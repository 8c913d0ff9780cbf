"""Acting on one job: cancel, retry, drop. The answer is what the store decided."""

from typing import Literal

from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.bodies import ActBody
from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.route_table import ACT, Answer, Reply, accepted, group, ok
from tailrace.gateway.routes.jobs import Links, links_of, status_of, where
from tailrace.streams.errors import JobNotFound
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import encode
from tailrace.streams.states import State
from tailrace.streams.transitions import Transitions
from tailrace.streams.words import JobId

route = group("jobs")

HEARD_SECONDS = 2  # a running attempt hears that it is to stop with the next beat of its consumer
NOT_SO = (Code.JOB_ENDED, Code.JOB_NOT_ENDED)


class Acted(Struct, frozen=True):
    jobId: JobId
    status: Literal["cancelled", "cancelling", "waiting"]
    links: Links


class Dropped(Struct, frozen=True):
    jobId: JobId
    status: Literal["dropped"]


class Acting:
    """The routes that act on one job."""

    def __init__(self, transitions: Transitions) -> None:
        self._transitions = transitions

    @route(
        "POST",
        "/api/jobs/{job_id}/cancel",
        ACT,
        {
            200: Answer("Cancelled, now or before.", Acted),
            202: Answer("Asked to stop: it can only end cancelled.", Acted, headers=("Location", "Retry-After")),
        },
        takes=ActBody,
        examples=({"by": "night shift", "reason": "not wanted any more"},),
        refuses=(Code.JOB_ENDED,),
    )
    async def cancel_job(self, _: Request, keys: PlatformKeys, key: str, body: ActBody) -> Reply:
        """End a job that nobody runs, or ask its attempt to stop."""
        word, job_id = await self._transitions.cancel(keys, key, said(body)), keys.id(key)
        if word == "cancelling":
            headers = {**where(job_id), "Retry-After": str(HEARD_SECONDS)}
            return Reply(Acted(job_id, "cancelling", links_of(job_id)), 202, headers)
        if word in {"ok", "again"}:
            return Reply(Acted(job_id, "cancelled", links_of(job_id)))
        raise refused(job_id, word, "there is nothing left to cancel")

    @route(
        "POST",
        "/api/jobs/{job_id}/retry",
        ACT,
        accepted("In line again.", Acted),
        takes=ActBody,
        examples=({"by": "night shift"},),
        refuses=(*NOT_SO, Code.STORE_FULL),
    )
    async def retry_job(self, _: Request, keys: PlatformKeys, key: str, body: ActBody) -> Reply:
        """Give a failed or cancelled job another life."""
        word, job_id = await self._transitions.reopen(keys, key, said(body)), keys.id(key)
        if word != "ok":
            raise refused(job_id, word, "only a failed or a cancelled job can be retried")
        return Reply(Acted(job_id, "waiting", links_of(job_id)), headers=where(job_id))

    @route("POST", "/api/jobs/{job_id}/drop", ACT, ok("Gone.", Dropped, None), takes=ActBody, refuses=NOT_SO)
    @route(
        "DELETE", "/api/jobs/{job_id}", ACT, ok("Gone.", Dropped, None), id="deleteJob", takes=ActBody, refuses=NOT_SO
    )
    async def drop_job(self, _: Request, keys: PlatformKeys, key: str, __: ActBody) -> Dropped:
        """Remove a failed or cancelled job with its history."""
        word = await self._transitions.drop(keys, key)
        if word != "ok":
            raise refused(keys.id(key), word, "only a failed or a cancelled job can be dropped")
        return Dropped(keys.id(key), "dropped")


def said(body: ActBody) -> bytes:
    """Who asked and why, as members of an event."""
    told = {name: value for name in ("by", "reason") if (value := getattr(body, name)) is not None}
    return b"," + encode(told)[1:-1] if told else b""


def refused(job_id: str, word: str, why: str) -> Exception:
    """The job is in a state that does not allow it."""
    if word == "missing":
        return JobNotFound(job_id)
    state = State(word)
    how = f"has ended: {status_of(state)}" if state.ended else f"has not ended: {status_of(state)}"
    code = Code.JOB_ENDED if state.ended else Code.JOB_NOT_ENDED
    return Refusal(code, f"job {job_id} {how}; {why}", state=status_of(state))
