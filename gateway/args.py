"""What a job was asked with, for as long as it is kept."""

from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from gateway.jobs import Jobs
from gateway.replies import reply
from streams.connection import Store
from streams.reading import read_args, read_record


class Args:
    """The route of a job's args. They may be large, so the job itself is told without them."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def show(self, request: Request) -> Response:
        """`kept` tells args that are gone, as those of a completed job are, from args that are null."""
        keys, key = self._jobs.locate(request)
        record = await read_record(self._store, keys, key)
        args = await read_args(self._store, keys, record)
        return reply({"data": {"jobId": record.id, "kept": args is not None, "args": Raw(args or b"null")}})
