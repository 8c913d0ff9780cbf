"""Failed jobs: counted, listed, tried again and removed."""

from typing import Annotated, Final

from msgspec import Meta, Struct
from starlette.requests import Request

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import Body, Who
from tailrace.gateway.problems import Code
from tailrace.gateway.route_table import ACT, READ, Parameter, formed, group, ok
from tailrace.gateway.routes.platforms import (
    A_PAGE,
    PAGE_AFTER,
    PAGE_LIMIT,
    PATH,
    JobListed,
    JobsPage,
    listed,
    page_of,
    paging,
)
from tailrace.producers.actions import Which
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PLATFORM_FORM, WORD_FORM, PlatformKeys
from tailrace.streams.views import failed_jobs
from tailrace.streams.views.failed_jobs import ERROR_LENGTH, Group, Match
from tailrace.streams.words import Count, PlatformName

route = group("platforms")

SWEEP, SWEEP_MOST = 1000, 10_000  # failed jobs acted on in one request: by default, and at most
WHICH: Final = {"kind": "scan", "limit": 10}  # for example

DEAD_PLATFORM: Final = Parameter("DeadPlatform", "query", "platform", "Only of this platform.", formed(PLATFORM_FORM))
DEAD_KIND: Final = Parameter("DeadKind", "query", "kind", "Only jobs of this kind.", formed(WORD_FORM))
DEAD_ERROR: Final = Parameter(
    "DeadError",
    "query",
    "error",
    "Only jobs with this type of error.",
    {"type": "string", "minLength": 1, "maxLength": ERROR_LENGTH},
)


class SweepBody(Body, frozen=True):
    """Which failed jobs are meant, and how many at most; `ended_by`: only those that ended by then."""

    kind: str | None = None
    error: str | None = None
    ended_by: str | None = None
    limit: Annotated[int, Meta(ge=1, le=SWEEP_MOST)] = SWEEP
    by: Who | None = None


class ErrorGroup(Struct, frozen=True):
    """Failed jobs of one platform with one type of error, and the newest of them; null: of any other type."""

    platform: PlatformName
    error: str | None
    count: Count
    newest: JobListed | None


class Replayed(Struct, frozen=True):
    """How many jobs were retried, and how many matching ones are left."""

    replayed: Count
    left: Count


class DroppedMany(Struct, frozen=True):
    """How many jobs were removed, and how many matching ones are left."""

    dropped: Count
    left: Count


@route("GET", f"{PATH}/dead", READ, A_PAGE, asks=(DEAD_KIND, DEAD_ERROR, PAGE_LIMIT, PAGE_AFTER))
async def list_dead(backend: Backend, request: Request, keys: PlatformKeys) -> JobsPage:
    """Failed jobs, newest first."""
    match = Match(request.query_params.get("kind"), request.query_params.get("error"))
    limit, after = paging(request)
    return page_of(await failed_jobs.list_dead(backend.store, keys, match, limit, after))


@route("GET", "/api/dead", READ, ok("The groups.", list[ErrorGroup]), asks=(DEAD_PLATFORM,))
async def group_dead(backend: Backend, request: Request) -> list[ErrorGroup]:
    """How many jobs have failed, by platform and type of error.

    A group whose error is null has all that no other group counts.
    """
    platform = request.query_params.get("platform")
    if platform is not None and platform not in backend.platforms:
        raise WrongField("platform", f"{platform[:100]!r} is not declared; known are {', '.join(backend.platforms)}")
    chosen = list(backend.platforms) if platform is None else [platform]
    return [grouped(group) for group in await failed_jobs.group_dead(backend.store, backend.transitions, chosen)]


@route(
    "POST", f"{PATH}/replay", ACT, ok("What was done.", Replayed, None), examples=(WHICH,), refuses=(Code.STORE_FULL,)
)
async def replay_dead(backend: Backend, _: Request, keys: PlatformKeys, body: SweepBody) -> Replayed:
    """Try failed jobs again, oldest first."""
    swept = await backend.actions.replay(keys.platform, by=body.by, **which(body))
    return Replayed(swept.done, swept.left)


@route("POST", f"{PATH}/drop", ACT, ok("What was done.", DroppedMany, None), examples=(WHICH,))
async def drop_dead(backend: Backend, _: Request, keys: PlatformKeys, body: SweepBody) -> DroppedMany:
    """Remove failed jobs, oldest first."""
    swept = await backend.actions.drop_dead(keys.platform, by=body.by, **which(body))
    return DroppedMany(swept.done, swept.left)


def which(body: SweepBody) -> Which:
    return Which(kind=body.kind, error=body.error, ended_by=body.ended_by, limit=body.limit)


def grouped(group: Group) -> ErrorGroup:
    newest = listed(group.newest) if group.newest else None
    return ErrorGroup(group.platform, group.error, group.count, newest)
