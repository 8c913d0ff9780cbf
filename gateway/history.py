"""History: all that happened to a job so far, as the same events a stream shows."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.etags import ASK_AGAIN, NOT_MODIFIED, asked_for, etag_of, is_known, tagged_reply
from gateway.fold import visible
from gateway.jobs import Jobs
from gateway.kept import KeptHistories, Told
from gateway.replies import KNOWN, answer_to, raw_reply
from streams.connection import Store
from streams.errors import WrongField
from streams.keys import PlatformKeys
from streams.reading import read_job

MOST = 1_000_000
PATH = "/research/history/"

_ASK_AGAIN = (b"cache-control", ASK_AGAIN.encode())


class History:
    """The route of all histories, and a short way to it."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
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
                job = self._jobs.find(job_id)
                if job is None:
                    await app(scope, receive, send)
                    return
                try:
                    told = await self._kept.read(*job)
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

    async def _tell(self, keys: PlatformKeys, key: str) -> Told:
        record, events = await read_job(self._store, keys, key)
        body = b"[%b]" % b",".join([raw for _, raw in visible(record.id, events)])
        return Told(body, etag_of(body) if record.state.ended else None)

    async def show(self, request: Request) -> Response:
        keys, key = self._jobs.locate(request)
        query = request.query_params
        limit = limit_of(query.get("limit"))
        record, events = await read_job(self._store, keys, key)
        shown = visible(record.id, events)
        if after := query.get("after"):
            places = [place for place, (head, _) in enumerate(shown, 1) if head.id == after]
            if not places:
                raise WrongField("after", "no event of this job has this id")
            shown = shown[places[0] :]
        if attempt := query.get("attempt"):
            if attempt != "current":
                raise WrongField("attempt", "only `current` is served")
            shown = [(head, raw) for head, raw in shown if head.attempt == (record.attempt or None)]
        body = b"[%b]" % b",".join(raw for _, raw in shown[:limit])
        return tagged_reply(request, body) if record.state.ended else raw_reply(body)


def limit_of(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST):
        raise WrongField("limit", f"must be a whole number from 1 to {MOST}")
    return int(text)
