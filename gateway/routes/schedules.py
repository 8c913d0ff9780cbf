"""Schedules over HTTP: keep, show, pause, resume, remove."""

from typing import Final

from msgspec import field
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.bodies import Args, Body, Nothing, OptionsOfEach
from tailrace.gateway.problems import Code
from tailrace.gateway.route_table import ACT, NO_CONTENT, READ, Answer, Reply, group, ok
from tailrace.producers.schedules import Schedules, ScheduleSeen, describe, options_of
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


class ScheduleRoutes:
    """The routes of schedules."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    @route("GET", ALL, READ, ok("The schedules, by name.", list[ScheduleSeen]))
    async def list_schedules(self, _: Request, platform: str) -> list[ScheduleSeen]:
        """The schedules of one platform."""
        return [describe(planned) for planned in await self._schedules.list(platform)]

    @route(
        "POST",
        ALL,
        ACT,
        KEPT,
        takes=ScheduleBody,
        examples=(
            {"name": "nightly", "kind": "scan", "cron": "0 3 * * *", "tz": "UTC"},
            {"name": "often", "kind": "scan", "every_seconds": 60},
        ),
        refuses=(Code.STORE_FULL,),
    )
    async def keep_schedule(self, _: Request, platform: str, body: ScheduleBody) -> Reply:
        """Keep a schedule, new or changed.

        Say either `cron` or `every_seconds`.
        """
        if body.name is None:
            raise WrongField("name", "is missing")
        return await self._keep(platform, body.name, body)

    @route(
        "POST",
        ONE,
        ACT,
        KEPT,
        takes=ScheduleBody,
        examples=({"kind": "scan", "every_seconds": 60},),
        refuses=(Code.STORE_FULL,),
    )
    async def keep_named_schedule(self, _: Request, platform: str, name: str, body: ScheduleBody) -> Reply:
        """Keep a schedule, new or changed, by the name in the path."""
        if body.name not in {None, name}:
            raise WrongField("name", "is not the one in the path")
        return await self._keep(platform, name, body)

    async def _keep(self, platform: str, name: str, body: ScheduleBody) -> Reply:
        planned = await self._schedules.upsert(schedule_of(platform, name, body))
        return Reply(describe(planned), headers={"Location": f"/api/platforms/{platform}/schedules/{name}"})

    @route("GET", ONE, READ, ok("The schedule.", ScheduleSeen), refuses=(Code.SCHEDULE_NOT_FOUND,))
    async def show_schedule(self, _: Request, platform: str, name: str) -> ScheduleSeen:
        """One schedule."""
        return describe(await self._schedules.get(platform, name))

    @route("POST", f"{ONE}/pause", ACT, ok("Paused.", ScheduleSeen), takes=Nothing, refuses=(Code.SCHEDULE_NOT_FOUND,))
    async def pause_schedule(self, _: Request, platform: str, name: str, __: Nothing) -> ScheduleSeen:
        """No more ticks."""
        return describe(await self._schedules.pause(platform, name))

    @route(
        "POST",
        f"{ONE}/resume",
        ACT,
        ok("Not paused.", ScheduleSeen),
        takes=Nothing,
        refuses=(Code.SCHEDULE_NOT_FOUND, Code.STORE_FULL),
    )
    async def resume_schedule(self, _: Request, platform: str, name: str, __: Nothing) -> ScheduleSeen:
        """Tick again, from now on."""
        return describe(await self._schedules.resume(platform, name))

    @route("DELETE", ONE, ACT, {204: Answer(NO_CONTENT, media=())}, takes=Nothing, refuses=(Code.SCHEDULE_NOT_FOUND,))
    async def remove_schedule(self, _: Request, platform: str, name: str, __: Nothing) -> Response:
        """Forget a schedule; jobs it has submitted stay."""
        await self._schedules.remove(platform, name)
        return Response(status_code=204)


def schedule_of(platform: str, name: str, body: ScheduleBody) -> Schedule:
    return Schedule(
        name=name,
        platform=platform,
        kind=body.kind,
        args=body.args,
        options=options_of(body.options),
        cron=body.cron,
        every_seconds=body.every_seconds,
        tz=body.tz,
        missed=body.missed,
        paused=body.paused,
    )
