"""The routes of platforms and their schedules, described."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from tailrace.gateway.documents.around import NO_CONTENT, Answer, Operation, ok
from tailrace.gateway.problems import Code
from tailrace.gateway.routes.bodies import ActBody, JobId, Nothing, PlatformName, Word, like
from tailrace.gateway.routes.platforms import SweepBody
from tailrace.gateway.routes.schedules import ScheduleBody
from tailrace.gateway.routes.schemas import Attempt, Count, JobStatus, Seconds, Time
from tailrace.streams.messages import Failure
from tailrace.streams.options import Options, Priority
from tailrace.streams.policies import Policy
from tailrace.streams.schedules import Missed, ScheduleName


class JobListed(Struct, frozen=True):
    """A job in a list; its error is without the traceback."""

    jobId: JobId
    status: JobStatus
    kind: Word
    priority: Priority
    attempt: Attempt | None
    failures: Count
    crashes: Count
    createdAt: Time
    startedAt: Time | None
    endedAt: Time | None
    runAt: Time | None
    workerId: str | None
    error: Failure | None


class JobsPage(Struct, frozen=True):
    """`next` goes into `after` for the following page; null: this was the last."""

    data: list[JobListed]
    next: str | None


class ErrorGroup(Struct, frozen=True):
    """Failed jobs of one platform with one type of error, and the newest of them; null: of any other type."""

    platform: PlatformName
    error: str | None
    count: Count
    newest: JobListed | None


class PlatformSeen(Struct, frozen=True, kw_only=True):
    """A platform at a glance; of ended jobs, those that are still kept."""

    platform: PlatformName
    waiting: Count
    running: Count
    delayed: Count
    completed: Count
    failed: Count
    cancelled: Count
    oldestWaitingSeconds: Seconds | None
    paused: bool
    pausedBy: str | None
    pausedSince: Time | None
    heldSeconds: Seconds | None
    consumers: list[str]


class PlatformAndPolicy(PlatformSeen, frozen=True, kw_only=True):
    """A platform at a glance, and the rules it lives by."""

    policy: Policy


class Replayed(Struct, frozen=True):
    """How many were tried again, and how many that match are still there."""

    replayed: Count
    left: Count


class DroppedMany(Struct, frozen=True):
    """How many were removed, and how many that match are still there."""

    dropped: Count
    left: Count


class Pause(Struct, frozen=True):
    platform: PlatformName
    paused: bool
    pausedBy: str | None
    pausedSince: Time | None


class ScheduleSeen(Struct, frozen=True):
    """A schedule as it is kept; `nextTick` is null while it is paused."""

    name: ScheduleName
    platform: PlatformName
    kind: Word
    args: Any
    options: Annotated[Any, Meta(extra_json_schema=like(Options))]
    cron: str | None
    every_seconds: Seconds | None
    tz: str
    missed: Missed
    paused: bool
    nextTick: Time | None


class Trend(Struct, frozen=True):
    """How many waited at each look, and how many ended until it and how, oldest first; null where nothing is known."""

    depth: list[Count | None]
    completed: list[Count | None]
    failed: list[Count | None]
    cancelled: list[Count | None]


class Trends(Struct, frozen=True):
    """The last ten minutes, as this gateway saw them."""

    everySeconds: Seconds
    platforms: dict[str, Trend]


PLATFORM: Final = "/api/platforms/{platform}"
SCHEDULES: Final = f"{PLATFORM}/schedules"

PLATFORMS: Final[Mapping[str, Operation]] = {
    "GET /api/platforms": Operation(
        id="listPlatforms",
        does="Every platform at a glance",
        group="platforms",
        asks=("Wait",),
        answers=ok("The platforms.", list[PlatformSeen]),
        refuses=(Code.WRONG_FIELD,),
    ),
    "GET /api/trends": Operation(
        id="listTrends",
        does="How deep the lines were and how many jobs ended, of late",
        group="platforms",
        answers=ok("A line for each platform.", Trends),
        store=False,
    ),
    "GET /api/dead": Operation(
        id="groupDead",
        does="How many jobs have failed, by platform and type of error",
        more="A group whose error is null has all that no other group counts.",
        group="platforms",
        asks=("DeadPlatform",),
        answers=ok("The groups.", list[ErrorGroup]),
        refuses=(Code.WRONG_FIELD,),
    ),
    f"GET {PLATFORM}": Operation(
        id="showPlatform",
        does="One platform with its policy",
        group="platforms",
        asks=("Wait",),
        answers=ok("The platform.", PlatformAndPolicy),
        refuses=(Code.WRONG_FIELD,),
    ),
    f"GET {PLATFORM}/jobs": Operation(
        id="listJobs",
        does="The jobs of one platform and state, page by page",
        group="platforms",
        asks=("State", "PageLimit", "PageAfter"),
        answers=ok("A page; it may be short, even empty, and not be the last.", JobsPage, None),
        refuses=(Code.WRONG_FIELD,),
    ),
    f"GET {PLATFORM}/dead": Operation(
        id="listDead",
        does="Failed jobs, newest first",
        group="platforms",
        asks=("DeadKind", "DeadError", "PageLimit", "PageAfter"),
        answers=ok("A page; it may be short, even empty, and not be the last.", JobsPage, None),
        refuses=(Code.WRONG_FIELD,),
    ),
    f"POST {PLATFORM}/replay": Operation(
        id="replayDead",
        does="Try failed jobs again, oldest first",
        group="platforms",
        takes=SweepBody,
        examples=({"kind": "scan", "limit": 10},),
        answers=ok("What was done.", Replayed, None),
        refuses=(Code.STORE_FULL,),
    ),
    f"POST {PLATFORM}/drop": Operation(
        id="dropDead",
        does="Remove failed jobs, oldest first",
        group="platforms",
        takes=SweepBody,
        examples=({"kind": "scan", "limit": 10},),
        answers=ok("What was done.", DroppedMany, None),
    ),
    f"POST {PLATFORM}/pause": Operation(
        id="pausePlatform",
        does="Start no more jobs; what runs goes on",
        group="platforms",
        takes=ActBody,
        examples=({"by": "night shift"},),
        answers=ok("Paused. Whoever paused it first is named.", Pause, None),
    ),
    f"POST {PLATFORM}/resume": Operation(
        id="resumePlatform",
        does="Start jobs again",
        group="platforms",
        takes=ActBody,
        answers=ok("Not paused.", Pause, None),
    ),
    f"GET {SCHEDULES}": Operation(
        id="listSchedules",
        does="The schedules of one platform",
        group="schedules",
        answers=ok("The schedules, by name.", list[ScheduleSeen]),
    ),
    f"POST {SCHEDULES}": Operation(
        id="keepSchedule",
        does="Keep a schedule, new or changed",
        more="Say either `cron` or `every_seconds`.",
        group="schedules",
        takes=ScheduleBody,
        examples=(
            {"name": "nightly", "kind": "scan", "cron": "0 3 * * *", "tz": "UTC"},
            {"name": "often", "kind": "scan", "every_seconds": 60},
        ),
        answers=ok("Kept.", ScheduleSeen, "data", "Location"),
        refuses=(Code.STORE_FULL,),
    ),
    f"GET {SCHEDULES}/{{name}}": Operation(
        id="showSchedule",
        does="One schedule",
        group="schedules",
        answers=ok("The schedule.", ScheduleSeen),
        refuses=(Code.SCHEDULE_NOT_FOUND,),
    ),
    f"POST {SCHEDULES}/{{name}}": Operation(
        id="keepNamedSchedule",
        does="Keep a schedule, new or changed, by the name in the path",
        group="schedules",
        takes=ScheduleBody,
        examples=({"kind": "scan", "every_seconds": 60},),
        answers=ok("Kept.", ScheduleSeen, "data", "Location"),
        refuses=(Code.STORE_FULL,),
    ),
    f"DELETE {SCHEDULES}/{{name}}": Operation(
        id="removeSchedule",
        does="Forget a schedule; jobs it has submitted stay",
        group="schedules",
        takes=Nothing,
        answers={204: Answer(NO_CONTENT, media=())},
        refuses=(Code.SCHEDULE_NOT_FOUND,),
    ),
    f"POST {SCHEDULES}/{{name}}/pause": Operation(
        id="pauseSchedule",
        does="No more ticks",
        group="schedules",
        takes=Nothing,
        answers=ok("Paused.", ScheduleSeen),
        refuses=(Code.SCHEDULE_NOT_FOUND,),
    ),
    f"POST {SCHEDULES}/{{name}}/resume": Operation(
        id="resumeSchedule",
        does="Tick again, from now on",
        group="schedules",
        takes=Nothing,
        answers=ok("Not paused.", ScheduleSeen),
        refuses=(Code.SCHEDULE_NOT_FOUND, Code.STORE_FULL),
    ),
}
