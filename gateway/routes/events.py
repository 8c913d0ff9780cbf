"""Events: the history of a job, and live streams of one job or of many."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.gateway.backend import Backend
from tailrace.gateway.bodies import limit_of
from tailrace.gateway.etags import ASK_AGAIN, NOT_MODIFIED, asked_for, is_known, tagged_reply
from tailrace.gateway.live.all_jobs import AllJobsStream
from tailrace.gateway.live.frames import LargeEvent
from tailrace.gateway.live.history_cache import Told, tag_of, told_of
from tailrace.gateway.live.job_stream import PATH as STREAM_PATH
from tailrace.gateway.live.job_stream import Stream
from tailrace.gateway.metrics.counters import ROUTE
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import KNOWN, answer_to, raw_reply
from tailrace.gateway.route_table import IF_NONE_MATCH, READ, STREAM, Answer, Parameter, group, kept, up_to
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import Event, queued_event
from tailrace.streams.history.pages import is_end
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.replies import read_job

route = group("events")

MOST = 1_000_000
MOST_JOBS = 1000  # that one client of /api/events may name
PATH = "/research/history/"
ROUTE_PATH = PATH + "{job_id}"

ATTEMPT: Final = Parameter(
    "HistoryAttempt", "query", "attempt", "Only the events of the attempt that counts.", {"enum": ["current"]}
)
AFTER: Final = Parameter("HistoryAfter", "query", "after", "Only what came after the event with this id.")
LIMIT: Final = Parameter("HistoryLimit", "query", "limit", "At most this many; by default all.", up_to(MOST))

LAST_ID: Final = (
    Parameter(
        "LastEventId",
        "header",
        "Last-Event-ID",
        "The id of the last event the caller has; an unknown id: all events again.",
    ),
    Parameter("LastEventIdQuery", "query", "lastEventId", "The same, for clients that cannot send headers."),
)
PLATFORMS: Final = Parameter("EventsPlatform", "query", "platform", "Only of these platforms, with commas between.")
JOBS: Final = Parameter("EventsJobs", "query", "jobs", f"Only of these jobs, with commas between; {MOST_JOBS} at most.")

_ASK_AGAIN = (b"cache-control", ASK_AGAIN.encode())


def short_cut(backend: Backend, app: ASGIApp) -> ASGIApp:
    """The application, with a short cut for whole histories: no middleware, no route, no request, no response.

    Clients ask for them again and again, and all these objects cost many times the answer. Whatever is not as plain as
    that takes the usual way.
    """
    kept, find = backend.kept_histories, backend.reach.find

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] != "GET"
            or scope["query_string"]
            or not scope["path"].startswith(PATH)
        ):
            await app(scope, receive, send)
            return
        scope[ROUTE] = ROUTE_PATH
        job_id = scope["path"][len(PATH) :]
        told = kept.get(job_id)
        if told is None:
            job = find(job_id)
            if job is None:
                await app(scope, receive, send)
                return
            try:
                told = await tell(backend, *job, asked_for(scope["headers"]))
            except KNOWN as error:
                await answer_to(error)(scope, receive, send)
                return
            except Exception:  # a bug, or a damaged job: the application answers for that
                await app(scope, receive, send)
                return
        body, etag = told
        headers = [(b"cache-control", b"no-store")] if etag is None else [_ASK_AGAIN, (b"etag", etag)]
        status = 200
        if is_known(asked_for(scope["headers"]), etag):
            status, body = NOT_MODIFIED, b""
        else:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def tell(backend: Backend, keys: PlatformKeys, key: str, asked: bytes | None) -> Told:
    """The whole history; without its body if its end alone tells that the client has it already."""
    if asked is not None:
        record, last = await read_job(backend.store, keys, key, first=-1)
        if record.state.ended and is_end(record, last):
            tag = tag_of([queued_event(record), *last])
            if is_known(asked, tag):
                return Told(b"", tag)
    return await backend.kept_histories.read(keys, key)


@route(
    "GET",
    ROUTE_PATH,
    READ,
    kept("In order, each once.", list[Event], None),
    asks=(ATTEMPT, AFTER, LIMIT, IF_NONE_MATCH),
)
async def history_of_job(backend: Backend, request: Request, keys: PlatformKeys, key: str) -> Response:
    """The events of one job so far."""
    query = request.query_params
    limit = limit_of(text, MOST) if (text := query.get("limit")) else None
    attempt, after = query.get("attempt"), query.get("after", "")
    if attempt not in {None, "", "current"}:
        raise WrongField("attempt", "must be `current`")
    if limit or attempt or after:
        told = told_of(await backend.histories.page(keys, key, after, limit, current=bool(attempt)))
    else:
        told = await tell(backend, keys, key, asked_for(request.scope["headers"]))
    return raw_reply(told.body) if told.etag is None else tagged_reply(request, told.body, told.etag)


@route(
    "GET",
    STREAM_PATH + "{job_id}",
    READ,
    {
        200: Answer("The events, as they happen.", Event, media=(STREAM,)),
        204: Answer("The job has ended, and the caller has its last event: do not reconnect.", media=()),
    },
    asks=LAST_ID,
    store=False,
)
async def follow_job(backend: Backend, request: Request, keys: PlatformKeys, key: str) -> Response:
    """The events of one job, live.

    Each event is one default `message`. `event: end` comes after the last one, `event: reset` before everything is
    sent again; both have `data: {}`. While the store is unavailable the stream sends a comment and closes: reconnect.
    """
    return Stream(backend.live, keys, key, last_id_of(request), backend.settings.ping_seconds)


@route(
    "GET",
    "/api/events",
    READ,
    {200: Answer("The events, as they happen.", (Event, LargeEvent), media=(STREAM,))},
    asks=(PLATFORMS, JOBS, *LAST_ID),
    refuses=(Code.WRONG_FIELD, Code.PLATFORM_FORBIDDEN),
    store=False,
)
async def follow_all(backend: Backend, request: Request) -> Response:
    """The events of many jobs in one stream, as they happen.

    Events have no id here, and none is repeated: `event: reset` says that some may be missing, and the histories
    have them.
    """
    query = request.query_params
    platforms = frozenset(map(backend.platforms.known, words_of(query.get("platform"))))
    jobs = words_of(query.get("jobs"))
    if len(jobs) > MOST_JOBS:
        raise WrongField("jobs", f"names more than {MOST_JOBS} jobs; leave it out and filter in the client")
    for job_id in jobs:
        try:
            platforms |= {backend.platforms.known(split_id(job_id)[0])} if not query.get("platform") else set()
        except WrongField as error:
            raise WrongField("jobs", error.reason) from None
    return AllJobsStream(
        backend.live,
        platforms or frozenset(backend.platforms),
        frozenset(jobs) or None,
        backend.settings.ping_seconds,
        missed=bool(last_id_of(request)),
    )


def last_id_of(request: Request) -> str:
    """The id of the last event that the client has, or an empty string."""
    return request.headers.get("last-event-id") or request.query_params.get("lastEventId") or ""


def words_of(text: str | None) -> list[str]:
    return [part for part in (part.strip() for part in (text or "").split(",")) if part]
