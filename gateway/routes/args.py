"""What a job was asked with, and what its steps gave, for as long as they are kept."""

from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.replies import reply
from tailrace.gateway.routes.jobs import Jobs
from tailrace.streams.replies import read_args, read_record, read_step, read_step_names
from tailrace.streams.store.connection import Store


class Args:
    """The routes of what may be large, so that the job itself is told without it."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def show(self, request: Request) -> Response:
        """`kept` tells args that are gone, as those of a completed job are, from args that are null."""
        keys, key = self._jobs.locate(request)
        record = await read_record(self._store, keys, key)
        args = await read_args(self._store, keys, record)
        return reply({"data": {"jobId": record.id, "kept": args is not None, "args": Raw(args or b"null")}})

    async def steps(self, request: Request) -> Response:
        """The names of the steps that were saved; with `?name=`, what that one gave."""
        keys, key = self._jobs.locate(request)
        record = await read_record(self._store, keys, key)
        name = request.query_params.get("name")
        if name is None:
            return reply({"data": {"jobId": record.id, "steps": await read_step_names(self._store, keys, key)}})
        value = await read_step(self._store, keys, key, name)
        if value is None:
            raise Refusal(Code.STEP_NOT_FOUND, f"job {record.id} has not saved a step of this name")
        return reply({"data": {"jobId": record.id, "name": name, "value": Raw(value)}})
