"""Platforms: an overview of each, its jobs by state, pause and resume, and its policy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import asdict, fields
from starlette.requests import Request

from tailrace.gateway.access.api_keys import CALLER, Key
from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import ActBody, Body, limit_of
from tailrace.gateway.replies import JobStatus, status_of
from tailrace.gateway.route_table import ACT, ADMIN, READ, Parameter, group, ok, up_to
from tailrace.gateway.routes.jobs import facts_of, time_of
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import PLATFORM_FORM, PlatformKeys
from tailrace.streams.messages import Failure
from tailrace.streams.options import Priority
from tailrace.streams.policies import Policy
from tailrace.streams.states import State
from tailrace.streams.views import listing
from tailrace.streams.views.audit import LIMIT as ACTS
from tailrace.streams.views.audit import MOST as MOST_ACTS
from tailrace.streams.views.audit import AuditPage, read_audit
from tailrace.streams.views.listing import LIMIT, MOST, JobListing, Listed
from tailrace.streams.views.overview import Overview, take_overviews
from tailrace.streams.views.presence import ConsumerPresence, Presence
from tailrace.streams.words import Count, JobId, Ordinal, PlatformName, Time, Word

route = group("platforms")

STATES: Final[Mapping[str, State]] = {status_of(state): state for state in State}


class JobListed(Struct, frozen=True, kw_only=True):
    """A job in a list; its error is without the traceback."""

    jobId: JobId
    status: JobStatus
    kind: Word
    priority: Priority
    attempt: Ordinal | None
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


class PlatformSeen(Overview, frozen=True, kw_only=True, rename="camel"):
    """A platform at a glance; of ended jobs, those that are still kept."""

    consumers: list[str]


class PlatformAndPolicy(PlatformSeen, frozen=True, kw_only=True, rename="camel"):
    """A platform at a glance, and its policy."""

    policy: Policy


if TYPE_CHECKING:
    PolicyBody = Body
else:
    PolicyBody = defstruct(
        "PolicyBody",
        [(each.name, each.type | UnsetType, UNSET) for each in fields(Policy)],
        bases=(Body,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": "Rules of a platform to be changed; those that are not named stay."},
    )


class Pause(Struct, frozen=True):
    platform: PlatformName
    paused: bool
    pausedBy: str | None
    pausedSince: Time | None


PATH: Final = "/api/platforms/{platform}"
A_PAGE: Final = ok("A page; it may be short, even empty, and not be the last.", JobsPage, None)

WAIT: Final = Parameter(
    "Wait",
    "query",
    "wait",
    "0: by what is known at once; a consumer that was not seen to beat yet is not counted as alive.",
    {"enum": ["0", "1"], "default": "1"},
)
STATE: Final = Parameter("State", "query", "state", "Which jobs.", {"enum": list(get_args(JobStatus))}, required=True)
PAGE_LIMIT: Final = Parameter("PageLimit", "query", "limit", "How many at most.", up_to(MOST, default=LIMIT))
PAGE_AFTER: Final = Parameter(
    "PageAfter", "query", "after", "The `next` of the page before.", {"type": "string", "maxLength": 200}
)
ON: Final = Parameter(
    "AuditPlatform",
    "query",
    "platform",
    "Only acts on this platform and its jobs.",
    {"type": "string", "pattern": f"^{PLATFORM_FORM}$"},
)
AT_MOST: Final = Parameter("AuditLimit", "query", "limit", "About how many at most.", up_to(MOST_ACTS, default=ACTS))
BEFORE: Final = Parameter(
    "AuditBefore", "query", "before", "The `next` of the page before.", {"type": "string", "maxLength": 40}
)


@route("GET", "/api/platforms", READ, ok("The platforms.", list[PlatformSeen]), asks=(WAIT,))
async def list_platforms(backend: Backend, request: Request) -> list[PlatformSeen]:
    """Every platform at a glance."""
    consumers = await seen(backend.presence, request)
    overviews = await take_overviews(backend.store, backend.platforms)
    served = alive_on(consumers)
    return [PlatformSeen(**asdict(each), consumers=served.get(each.platform, [])) for each in overviews]


@route("GET", PATH, READ, ok("The platform.", PlatformAndPolicy), asks=(WAIT,))
async def show_platform(backend: Backend, request: Request, keys: PlatformKeys) -> PlatformAndPolicy:
    """One platform with its policy."""
    consumers = await seen(backend.presence, request)
    (overview,) = await take_overviews(backend.store, [keys.platform])
    served, policy = alive_on(consumers).get(keys.platform, []), backend.platforms[keys.platform]
    return PlatformAndPolicy(**asdict(overview), consumers=served, policy=policy)


@route(
    "PATCH",
    PATH,
    ADMIN,
    ok("The policy as it is now; consumers and gateways go by it within two seconds.", Policy, None),
    examples=({"rate": 30, "rate_seconds": 60},),
)
async def change_platform(backend: Backend, request: Request, keys: PlatformKeys, body: PolicyBody) -> Policy:
    """Change some rules of a platform; those that are not named stay.

    A policy that contradicts itself is refused, and nothing changes.
    """
    rules = said_in(body)
    if (
        isinstance(backend.platforms, Narrowed) and "lane" in rules
    ):  # its platforms share their slots with those of others
        raise WrongField("lane", "cannot be changed with a key that is limited to platforms")
    caller: Key | None = request.scope.get(CALLER)
    await backend.policies.change(keys.platform, rules, by=caller.name if caller else None)
    if isinstance(backend.platforms, Narrowed):
        backend.platforms.renew()
    return backend.platforms[keys.platform]


@route("GET", f"{PATH}/jobs", READ, A_PAGE, asks=(STATE, PAGE_LIMIT, PAGE_AFTER))
async def list_jobs(backend: Backend, request: Request, keys: PlatformKeys) -> JobsPage:
    """The jobs of one platform and state, page by page."""
    asked = request.query_params.get("state")
    if asked is None or asked not in STATES:
        missing = "is missing; it " if asked is None else ""
        raise WrongField("state", f"{missing}must be one of {', '.join(STATES)}")  # a query may hold a secret
    limit, after = paging(request)
    return page_of(await listing.list_jobs(backend.store, keys, STATES[asked], limit, after))


@route(
    "POST",
    f"{PATH}/pause",
    ACT,
    ok("Paused. `pausedBy` is the first caller that paused it.", Pause, None),
    examples=({"by": "night shift"},),
)
async def pause_platform(backend: Backend, _: Request, keys: PlatformKeys, body: ActBody) -> Pause:
    """Start no more jobs; running jobs go on."""
    paused = await backend.actions.pause(keys.platform, by=body.by)
    return Pause(keys.platform, True, paused.by, paused.since)


@route("POST", f"{PATH}/resume", ACT, ok("Not paused.", Pause, None))
async def resume_platform(backend: Backend, _: Request, keys: PlatformKeys, body: ActBody) -> Pause:
    """Start jobs again."""
    await backend.actions.resume(keys.platform, by=body.by)
    return Pause(keys.platform, False, None, None)


@route("GET", "/api/audit", READ, ok("A page, newest first.", AuditPage, None), asks=(ON, AT_MOST, BEFORE))
async def list_acts(backend: Backend, request: Request) -> AuditPage:
    """The audit: who did what.

    Pause, resume, restart, cancel, retry, drop, replay and changes of policies; the last thousand of each platform.
    """
    platform, text = request.query_params.get("platform"), request.query_params.get("limit")
    if platform is not None and platform not in backend.platforms:
        raise WrongField("platform", f"{platform[:100]!r} is not declared; known are {', '.join(backend.platforms)}")
    limit = ACTS if text is None else limit_of(text, MOST_ACTS)
    chosen = list(backend.platforms) if platform is None else [platform]
    return await read_audit(backend.store, chosen, limit, request.query_params.get("before", ""))


async def seen(presence: Presence, request: Request) -> list[ConsumerPresence]:
    """The consumers. A gateway that does not know them yet waits for a beat, unless the request says `wait=0`."""
    wait = request.query_params.get("wait", "1")
    if wait not in {"0", "1"}:
        raise WrongField("wait", "must be 0 or 1")
    return await presence.see() if wait == "1" else await presence.glance() or []


def paging(request: Request) -> tuple[int, str]:
    """The query parameters `limit` and `after`."""
    text = request.query_params.get("limit")
    after = request.query_params.get("after", "")
    if len(after) > 200:
        raise WrongField("after", "is not the `next` of a page of this list")
    return LIMIT if text is None else limit_of(text, MOST), after


def page_of(page: JobListing) -> JobsPage:
    return JobsPage([listed(job) for job in page.jobs], page.next)


def listed(job: Listed) -> JobListed:
    return JobListed(**facts_of(job.record), runAt=time_of(job.until_ms), error=job.error)


def said_in(body: Body) -> dict[str, Any]:
    """The fields that a body names."""
    return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}


def alive_on(consumers: list[ConsumerPresence]) -> dict[str, list[str]]:
    """The consumers that live, by platform."""
    served: dict[str, list[str]] = {}
    for each in consumers:
        for platform in each.platforms if each.alive else ():
            served.setdefault(platform, []).append(each.owner)
    return served
