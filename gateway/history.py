"""History: all that happened to a job so far, as the same events a stream shows."""

from starlette.requests import Request
from starlette.responses import Response

from gateway.fold import visible
from gateway.jobs import Jobs
from gateway.replies import raw_reply
from streams.connection import Store
from streams.errors import WrongField
from streams.reading import read_job

MOST = 1_000_000


class History:
    """The route of all histories."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

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
        return raw_reply(b"[%b]" % b",".join(raw for _, raw in shown[:limit]))


def limit_of(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST):
        raise WrongField("limit", f"must be a whole number from 1 to {MOST}")
    return int(text)
