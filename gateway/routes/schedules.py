"""Schedules over HTTP: keep, show, pause, resume, remove."""

from msgspec import field
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.replies import reply
from tailrace.gateway.routes.bodies import Args, Body, Nothing, OptionsOfEach, Word, read_body
from tailrace.producers.schedules import Schedules, describe, options_of
from tailrace.streams.errors import WrongField
from tailrace.streams.schedules import Missed, Planned, Schedule, ScheduleName


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

    async def upsert(self, request: Request) -> Response:
        body = await read_body(request, ScheduleBody)
        platform, name = request.path_params["platform"], request.path_params.get("name", body.name)
        if name is None or body.name not in {None, name}:
            raise WrongField("name", "is missing" if name is None else "is not the one in the path")
        planned = await self._schedules.upsert(schedule_of(platform, name, body))
        return answer(planned, {"Location": f"/api/platforms/{platform}/schedules/{name}"})

    async def list(self, request: Request) -> Response:
        found = await self._schedules.list(request.path_params["platform"])
        return reply({"data": [describe(planned) for planned in found]})

    async def show(self, request: Request) -> Response:
        return answer(await self._schedules.get(*place(request)))

    async def pause(self, request: Request) -> Response:
        await read_body(request, Nothing)
        return answer(await self._schedules.pause(*place(request)))

    async def resume(self, request: Request) -> Response:
        await read_body(request, Nothing)
        return answer(await self._schedules.resume(*place(request)))

    async def remove(self, request: Request) -> Response:
        await read_body(request, Nothing)
        await self._schedules.remove(*place(request))
        return Response(status_code=204)


def place(request: Request) -> tuple[str, str]:
    return request.path_params["platform"], request.path_params["name"]


def answer(planned: Planned, headers: dict[str, str] | None = None) -> Response:
    return reply({"data": describe(planned)}, headers=headers)


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
