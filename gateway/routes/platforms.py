"""Platforms: each at a glance, its jobs by state, its dead letters, and starting or stopping the flow."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import reply
from tailrace.gateway.routes.bodies import ActBody, Body, Who, read_body
from tailrace.gateway.routes.jobs import said, status_of, time_of
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import at_ms
from tailrace.streams.pauses import pause_platform
from tailrace.streams.policies import Platforms
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.dead_letters import Group, Match, group_dead, list_dead, sweep_dead
from tailrace.streams.views.listing import LIMIT, MOST, JobListing, Listed, list_jobs
from tailrace.streams.views.overview import Overview, take_overviews
from tailrace.streams.views.presence import ConsumerPresence, Presence

SWEEP, SWEEP_MOST = 1000, 10_000  # dead letters acted on in one request: unless told, and at most

STATES = {status_of(state): state for state in State}


class SweepBody(Body, frozen=True):
    """Which failed jobs are meant, and how many at most; `ended_by`: only those that ended by then."""

    kind: str | None = None
    error: str | None = None
    ended_by: str | None = None
    limit: Annotated[int, Meta(ge=1, le=SWEEP_MOST)] = SWEEP
    by: Who | None = None


class PlatformRoutes:
    """The routes about platforms."""

    def __init__(self, store: Store, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._store = store
        self._transitions = transitions
        self._platforms = platforms
        self._presence = presence

    def locate(self, request: Request) -> PlatformKeys:
        return locate(self._platforms, request)

    async def list(self, request: Request) -> Response:
        consumers = await seen(self._presence, request)
        overviews = await take_overviews(self._store, self._platforms)
        served = alive_on(consumers)
        return reply({"data": [described(each, served.get(each.platform, [])) for each in overviews]})

    async def show(self, request: Request) -> Response:
        keys = self.locate(request)
        consumers = await seen(self._presence, request)
        (overview,) = await take_overviews(self._store, [keys.platform])
        policy = msgspec.to_builtins(self._platforms[keys.platform])
        alive = alive_on(consumers).get(keys.platform, [])
        return reply({"data": {**described(overview, alive), "policy": policy}})

    async def jobs(self, request: Request) -> Response:
        keys = self.locate(request)
        asked = request.query_params.get("state")
        if asked is None or asked not in STATES:
            missing = "is missing: " if asked is None else ""
            raise WrongField("state", f"{missing}one of {', '.join(STATES)}")
        limit, after = paging(request)
        return page_reply(await list_jobs(self._store, keys, STATES[asked], limit, after))

    async def dead(self, request: Request) -> Response:
        keys = self.locate(request)
        match = Match(request.query_params.get("kind"), request.query_params.get("error"))
        limit, after = paging(request)
        return page_reply(await list_dead(self._store, keys, match, limit, after))

    async def errors(self, request: Request) -> Response:
        """The failed jobs of every platform, or of one, counted by the type of their error."""
        platform = request.query_params.get("platform")
        if platform is not None and platform not in self._platforms:
            raise WrongField("platform", f"{platform[:100]!r} is not declared; known are {', '.join(self._platforms)}")
        chosen = list(self._platforms) if platform is None else [platform]
        groups = await group_dead(self._store, self._transitions, chosen)
        return reply({"data": [grouped(group) for group in groups]})

    async def replay(self, request: Request) -> Response:
        """Reopen what matches, oldest first."""
        keys = self.locate(request)
        body = await read_body(request, SweepBody)
        more = said(ActBody(by=body.by))
        return await self._sweep(keys, body, "replayed", lambda key: self._transitions.reopen(keys, key, more))

    async def drop(self, request: Request) -> Response:
        """Remove what matches, oldest first."""
        keys = self.locate(request)
        body = await read_body(request, SweepBody)
        return await self._sweep(keys, body, "dropped", partial(self._transitions.drop, keys))

    async def _sweep(
        self, keys: PlatformKeys, body: SweepBody, word: str, act: Callable[[str], Awaitable[str]]
    ) -> Response:
        match = Match(body.kind, body.error, at_ms(body.ended_by, "ended_by"))
        swept = await sweep_dead(self._store, keys, match, act, body.limit)
        return reply({word: swept.done, "left": swept.left})

    async def pause(self, request: Request) -> Response:
        """Start no more jobs of a platform; whoever paused it first is the one who is named."""
        keys = self.locate(request)
        body = await read_body(request, ActBody)
        _, by, since = await pause_platform(self._transitions, keys, body.by)
        return reply({"platform": keys.platform, "paused": True, "pausedBy": by, "pausedSince": since})

    async def resume(self, request: Request) -> Response:
        keys = self.locate(request)
        await read_body(request, ActBody)
        await self._transitions.resume(keys)
        return reply({"platform": keys.platform, "paused": False, "pausedBy": None, "pausedSince": None})


def locate(platforms: Platforms, request: Request) -> PlatformKeys:
    """The keys of the platform in a request's path."""
    name: str = request.path_params["platform"]
    if name not in platforms:
        known = ", ".join(platforms)
        raise Refusal(Code.PLATFORM_NOT_FOUND, f"platform {name[:100]!r} is not declared; known are {known}")
    return PlatformKeys(name)


async def seen(presence: Presence, request: Request) -> list[ConsumerPresence]:
    """The consumers; who does not know them yet waits for a beat, unless the request says `wait=0`."""
    wait = request.query_params.get("wait", "1")
    if wait not in {"0", "1"}:
        raise WrongField("wait", "must be 0 or 1")
    return await presence.see() if wait == "1" else await presence.glance() or []


def paging(request: Request) -> tuple[int, str]:
    """How many, and after which place."""
    text = request.query_params.get("limit")
    limit = LIMIT
    if text is not None:
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST):
            raise WrongField("limit", f"must be a whole number from 1 to {MOST}")
        limit = int(text)
    after = request.query_params.get("after", "")
    if len(after) > 200:
        raise WrongField("after", "is not the `next` of a page of this list")
    return limit, after


def page_reply(page: JobListing) -> Response:
    return reply({"data": [listed(job) for job in page.jobs], "next": page.next})


def listed(job: Listed) -> dict[str, Any]:
    record = job.record
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
        "runAt": time_of(job.until_ms),
        "workerId": record.owner if record.state is State.RUNNING or record.state.ended else None,
        "error": job.error,
    }


def grouped(group: Group) -> dict[str, Any]:
    newest = listed(group.newest) if group.newest else None
    return {"platform": group.platform, "error": group.error, "count": group.count, "newest": newest}


def alive_on(consumers: list[ConsumerPresence]) -> dict[str, list[str]]:
    """The consumers that live, by platform."""
    served: dict[str, list[str]] = {}
    for each in consumers:
        for platform in each.platforms if each.alive else ():
            served.setdefault(platform, []).append(each.owner)
    return served


def described(overview: Overview, alive: list[str]) -> dict[str, Any]:
    return {
        "platform": overview.platform,
        "waiting": overview.waiting,
        "running": overview.running,
        "delayed": overview.delayed,
        "completed": overview.completed,
        "failed": overview.failed,
        "cancelled": overview.cancelled,
        "oldestWaitingSeconds": overview.oldest_waiting_seconds,
        "paused": overview.paused,
        "pausedBy": overview.paused_by,
        "pausedSince": overview.paused_since,
        "heldSeconds": overview.held_seconds,
        "consumers": alive,
    }
