"""What a job was asked with, and what its steps gave, for as long as they are kept."""

from typing import Any, Final

from msgspec import Raw, Struct
from starlette.requests import Request

from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.route_table import READ, Parameter, group, ok
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.replies import read_args, read_record, read_step, read_step_names
from tailrace.streams.store.connection import Store
from tailrace.streams.words import JobId

route = group("jobs")

STEP_NAME: Final = Parameter("StepName", "query", "name", "Which step.")


class ArgsSeen(Struct, frozen=True):
    """`kept` tells args that are gone, as those of a completed job are, from args that are null."""

    jobId: JobId
    kept: bool
    args: Any


class StepsSeen(Struct, frozen=True):
    """The names of the steps that were saved."""

    jobId: JobId
    steps: list[str]


class StepSeen(Struct, frozen=True):
    """What one of them gave."""

    jobId: JobId
    name: str
    value: Any


class ArgsRoutes:
    """The routes of what may be large, so that the job itself is told without it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @route("GET", "/api/jobs/{job_id}/args", READ, ok("The args.", ArgsSeen))
    async def args_of_job(self, _: Request, keys: PlatformKeys, key: str) -> ArgsSeen:
        """What a job was asked with."""
        record = await read_record(self._store, keys, key)
        args = await read_args(self._store, keys, record)
        return ArgsSeen(record.id, args is not None, Raw(args or b"null"))

    @route(
        "GET",
        "/api/jobs/{job_id}/steps",
        READ,
        ok("The names, or the one.", (StepsSeen, StepSeen)),
        asks=(STEP_NAME,),
        refuses=(Code.STEP_NOT_FOUND,),
    )
    async def steps_of_job(self, request: Request, keys: PlatformKeys, key: str) -> StepsSeen | StepSeen:
        """The names of the steps a job has saved; with `name`, what that one gave."""
        record = await read_record(self._store, keys, key)
        name = request.query_params.get("name")
        if name is None:
            return StepsSeen(record.id, await read_step_names(self._store, keys, key))
        value = await read_step(self._store, keys, key, name)
        if value is None:
            raise Refusal(Code.STEP_NOT_FOUND, f"job {record.id} has not saved a step of this name")
        return StepSeen(record.id, name, Raw(value))
