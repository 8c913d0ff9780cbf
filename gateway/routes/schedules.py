"""Schedules over HTTP: keep, show, pause, resume, remove."""

from typing import Final

from msgspec import field
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.api_keys import CALLER, Key
from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import Args, Body, Nothing, OptionsOfEach
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import url_path
from tailrace.gateway.route_table import ACT, NO_CONTENT, READ, Answer, Reply, group, ok
from tailrace.producers.schedules import ScheduleSeen, describe, options_of
from tailrace.streams.errors import WrongField
from tailrace.streams.schedules import Missed, Schedule, ScheduleName
from tailrace.streams.words import Word

route = group("schedules")

ALL: Final = "/api/platforms/{platform}/schedules"
ONE: Final = f"{ALL}/{{name}}"
KEPT: Final = ok("Kept.", ScheduleSeen, "data", "Location")


class ScheduleBody(Body, frozen=True):
    """A schedule; its platform, and its name too if it stands there, come from the path."""

    kind: Word
    name: ScheduleName | None = None
    args: Args = field(default_factory=dict)
    options: OptionsOfEach = field(default_factory=dict)
    cron: str | None = None
    every_seconds: float | None = None
    tz: str = "UTC"
    missed: Missed = "skip"
    paused: bool = False


@route("GET", ALL, READ, ok("The schedules, by name.", list[ScheduleSeen]))
async def list_schedules(backend: Backend, _: Request, platform: str) -> list[ScheduleSeen]:
    """The schedules of one platform."""
    return [describe(planned) for planned in await backend.schedules.list(platform)]


@route(
    "POST",
    ALL,
    ACT,
    KEPT,
    examples=(
        {"name": "nightly", "kind": "scan", "cron": "0 3 * * *", "tz": "UTC"},
        {"name": "often", "kind": "scan", "every_seconds": 60},
    ),
    refuses=(Code.STORE_FULL,),
)
async def keep_schedule(backend: Backend, request: Request, platform: str, body: ScheduleBody) -> Reply:
    """Keep a schedule, new or changed.

    Say either `cron` or `every_seconds`.
    """
    if body.name is None:
        raise WrongField("name", "is missing")
    return await _keep(backend, platform, body.name, body, caller_of(request))


@route("POST", ONE, ACT, KEPT, examples=({"kind": "scan", "every_seconds": 60},), refuses=(Code.STORE_FULL,))
async def keep_named_schedule(
    backend: Backend, request: Request, platform: str, name: str, body: ScheduleBody
) -> Reply:
    """Keep a schedule, new or changed, by the name in the path."""
    if body.name not in {None, name}:
        raise WrongField("name", "must be the name in the path, or left out", body.name)
    return await _keep(backend, platform, name, body, caller_of(request))


def caller_of(request: Request) -> str | None:
    """The name of the key that a request came with."""
    key: Key | None = request.scope.get(CALLER)
    return key.name if key else None


async def _keep(backend: Backend, platform: str, name: str, body: ScheduleBody, by: str | None) -> Reply:
    said = {**asdict(body), "platform": platform, "name": name, "options": options_of(body.options)}
    planned = await backend.schedules.upsert(Schedule(**said), by=by)
    return Reply(describe(planned), headers={"Location": url_path(f"/api/platforms/{platform}/schedules/{name}")})


@route("GET", ONE, READ, ok("The schedule.", ScheduleSeen), refuses=(Code.SCHEDULE_NOT_FOUND,))
async def show_schedule(backend: Backend, _: Request, platform: str, name: str) -> ScheduleSeen:
    """One schedule."""
    return describe(await backend.schedules.get(platform, name))


@route("POST", f"{ONE}/pause", ACT, ok("Paused.", ScheduleSeen), refuses=(Code.SCHEDULE_NOT_FOUND,))
async def pause_schedule(backend: Backend, request: Request, platform: str, name: str, _: Nothing) -> ScheduleSeen:
    """No more ticks."""
    return describe(await backend.schedules.pause(platform, name, by=caller_of(request)))


@route(
    "POST", f"{ONE}/resume", ACT, ok("Not paused.", ScheduleSeen), refuses=(Code.SCHEDULE_NOT_FOUND, Code.STORE_FULL)
)
async def resume_schedule(backend: Backend, request: Request, platform: str, name: str, _: Nothing) -> ScheduleSeen:
    """Tick again, from now on."""
    return describe(await backend.schedules.resume(platform, name, by=caller_of(request)))


@route("DELETE", ONE, ACT, {204: Answer(NO_CONTENT, media=())}, refuses=(Code.SCHEDULE_NOT_FOUND,))
async def remove_schedule(backend: Backend, request: Request, platform: str, name: str, _: Nothing) -> Response:
    """Remove a schedule; jobs it has submitted stay."""
    await backend.schedules.remove(platform, name, by=caller_of(request))
    return Response(status_code=204)
