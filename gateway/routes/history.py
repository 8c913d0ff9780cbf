"""History: all that happened to a job so far, as the same events a stream shows."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.gateway.access.reach import Reach
from tailrace.gateway.etags import ASK_AGAIN, NOT_MODIFIED, asked_for, etag_of, is_known, tagged_reply
from tailrace.gateway.live.history_cache import KeptHistories, Told
from tailrace.gateway.replies import KNOWN, answer_to, raw_reply
from tailrace.gateway.route_table import IF_NONE_MATCH, READ, Parameter, group, kept
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import Event, queued_event
from tailrace.streams.history.pages import Histories, HistoryPage, is_end
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.replies import read_job
from tailrace.streams.store.connection import Store

route = group("events")

MOST = 1_000_000
PATH = "/research/history/"

ATTEMPT: Final = Parameter(
    "HistoryAttempt", "query", "attempt", "Only the events of the attempt that counts.", {"enum": ["current"]}
)
AFTER: Final = Parameter("HistoryAfter", "query", "after", "Only what came after the event with this id.")
LIMIT: Final = Parameter(
    "HistoryLimit",
    "query",
    "limit",
    "At most so many; all unless said.",
    {"type": "integer", "minimum": 1, "maximum": MOST},
)

_ASK_AGAIN = (b"cache-control", ASK_AGAIN.encode())


class History:
    """The route of all histories, and a short way to it."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self._store = store
        self._reach = reach
        self._histories = Histories(store)
        self._kept = KeptHistories(self._tell)

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """The application, with a short cut for whole histories: no middleware, no route, no request, no response.

        Clients ask for them again and again, and all these objects cost many times the answer. Whatever is not as
        plain as that goes the usual way.
        """

        async def short_cut(scope: Scope, receive: Receive, send: Send) -> None:
            if (
                scope["type"] != "http"
                or scope["method"] != "GET"
                or scope["query_string"]
                or not scope["path"].startswith(PATH)
            ):
                await app(scope, receive, send)
                return
            job_id = scope["path"][len(PATH) :]
            told = self._kept.get(job_id)
            if told is None:
                job = self._reach.find(job_id)
                if job is None:
                    await app(scope, receive, send)
                    return
                try:
                    told = await self._told(*job, asked_for(scope["headers"]))
                except KNOWN as error:
                    await answer_to(error)(scope, receive, send)
                    return
                except Exception:  # a bug, or a damaged job: the application has a way to tell that
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

        return short_cut

    async def _told(self, keys: PlatformKeys, key: str, asked: bytes | None) -> Told:
        """The whole history; without its body if its end alone tells that the client has it already."""
        if asked is not None:
            record, last = await read_job(self._store, keys, key, first=-1)
            if record.state.ended and is_end(record, last):
                tag = tag_of([queued_event(record), *last])
                if is_known(asked, tag):
                    return Told(b"", tag)
        return await self._kept.read(keys, key)

    async def _tell(self, keys: PlatformKeys, key: str) -> Told:
        page = await self._histories.whole(keys, key)
        return Told(body_of(page), tag_of(page.events) if page.record.state.ended else None)

    @route(
        "GET",
        PATH + "{job_id}",
        READ,
        kept("In order, each once.", list[Event], None),
        asks=(ATTEMPT, AFTER, LIMIT, IF_NONE_MATCH),
    )
    async def history_of_job(self, request: Request, keys: PlatformKeys, key: str) -> Response:
        """The events of one job so far."""
        query = request.query_params
        limit, attempt, after = limit_of(query.get("limit")), query.get("attempt"), query.get("after", "")
        if attempt not in {None, "", "current"}:
            raise WrongField("attempt", "only `current` is served")
        if limit or attempt or after:
            page = await self._histories.page(keys, key, after, limit, current=bool(attempt))
            body = body_of(page)
            ended = page.record.state.ended
            return tagged_reply(request, body, tag_of(page.events)) if ended else raw_reply(body)
        told = await self._told(keys, key, asked_for(request.scope["headers"]))
        return raw_reply(told.body) if told.etag is None else tagged_reply(request, told.body, told.etag)


def tag_of(events: Sequence[bytes]) -> bytes:
    """The tag of events that follow each other, made of the first and the last: each has its number and its moment."""
    return etag_of(b"\n".join([*events[:1], *events[-1:]]))


def body_of(page: HistoryPage) -> bytes:
    return b"[%b]" % b",".join(page.events)


def limit_of(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST):
        raise WrongField("limit", f"must be a whole number from 1 to {MOST}")
    return int(text)
