"""The client: submit jobs, watch them and act on them, from Python and straight on the store."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from msgspec import Struct

from tailrace.producers.actions import Actions
from tailrace.producers.declarations import Declared, Named, named, result_as
from tailrace.producers.flows import Flow, SubmittedFlow, children_of
from tailrace.producers.following import follow, read_visible, wait_for_end
from tailrace.producers.kinds import ALL_KINDS, Kinds
from tailrace.producers.policies import watch_all
from tailrace.producers.producer import Producer
from tailrace.producers.schedules import Schedules
from tailrace.producers.settings import StreamsSettings
from tailrace.producers.submissions import Submission, Submitted
from tailrace.streams.errors import JobCancelled, JobFailed, NoStore, Refused
from tailrace.streams.history.events import Event, decode_event, iso, progress_of
from tailrace.streams.messages import Failure
from tailrace.streams.options import JobOptions, Options
from tailrace.streams.policies import Platforms
from tailrace.streams.process.data_folder import DEFAULT_DATA, find_running, settings_of
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.process.settings import Environment
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.flow import FLOW_LIMIT, FlowPage, read_flow

Args = TypeVar("Args")
T = TypeVar("T")


class JobInfo(Struct, frozen=True):
    """A job as it is now. Times are ISO 8601 in UTC."""

    id: str
    platform: str
    kind: str
    status: State
    attempt: int  # 0 before the first start
    failures: int
    crashes: int
    accepted_at: str
    started_at: str | None = None
    ended_at: str | None = None
    worker: str | None = None  # the consumer that runs it
    progress: float | None = None  # per cent
    result: Any = None
    error: Failure | None = None


class Tailrace(Actions):
    """A client of one store.

        async with Tailrace("redis://127.0.0.1:6379") as tr:
            job = await tr.submit("research", "drill", {"steps": 3})
            print(await tr.result(job.id, timeout=60))

    Without a URL it uses REDIS_URL, else the store of the `up` that runs on the data folder. Platforms are the built-in
    ones and those that TAILRACE_PLATFORMS and TAILRACE_CONFIG declare. Every method raises a `StoreError` when the
    store does not answer; `follow` and `result` wait for it once they have begun.
    """

    def __init__(self, url: str | None = None, *, data: Path | str = DEFAULT_DATA) -> None:
        self._given = url
        self._data = Path(data)

    @classmethod
    def over(cls, store: Store, platforms: Platforms, kinds: Kinds = ALL_KINDS) -> Self:
        """A client on a store that is open already; it need not be entered, and leaves the store open."""
        client = cls()
        client._begin(store, platforms, kinds)
        return client

    async def __aenter__(self) -> Self:
        url, settings = find_store(self._given, self._data)
        store = settings.open(url)
        await store.__aenter__()
        try:
            await check_fitness(store, "producer")
            await watch_all(store, settings).look()
        except BaseException:
            await store.__aexit__(None, None, None)
            raise
        self._begin(store, settings.platforms, settings.kinds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.__aexit__(kind, error, trace)

    def _begin(self, store: Store, platforms: Platforms, kinds: Kinds) -> None:
        transitions = Transitions(store)
        super().__init__(transitions, platforms)
        self._store = store
        self._producer = Producer(transitions, platforms, kinds=kinds)
        self.schedules = Schedules(transitions, platforms, kinds)

    @overload
    async def submit(
        self, platform: str, kind: str, args: Any = None, *, id: str | None = None, **options: Unpack[JobOptions]
    ) -> Submitted: ...

    @overload
    async def submit(
        self,
        handler: Declared[Args],
        args: Args,
        *,
        platform: str | None = None,
        id: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Submitted: ...

    async def submit(self, *job: Any, id: str | None = None, **options: Any) -> Submitted:
        """Accept a job: by platform and kind, or by the handler itself, so that the type of its args is known.

            await tr.submit("default", "greet", {"names": ["Ada"]})
            await tr.submit(greet, Greeting(names=["Ada"]))

        The second form checks the args at once, and takes the platform of `@handles("greet", platform=…)` unless it
        names another one. `id` is your own key for the job: the same key with the same body is the same job. Raises
        `WrongField` naming the argument that is wrong, or `OtherBody` when the key is taken by another body.
        """
        return await self._producer.submit(submission(next(named(job, options)), id, options))

    @overload
    async def submit_many(
        self, platform: str, kind: str, many: Iterable[Any], **options: Unpack[JobOptions]
    ) -> list[Submitted | Refused]: ...

    @overload
    async def submit_many(
        self,
        handler: Declared[Args],
        many: Iterable[Args],
        *,
        platform: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Submitted | Refused]: ...

    async def submit_many(self, *jobs: Any, **options: Any) -> list[Submitted | Refused]:
        """Accept one job for each args, in few trips; the answers are in the order given."""
        return await self._producer.submit_many(
            [submission(job, None, options) for job in named(jobs, options, many=True)]
        )

    async def submit_flow(self, flow: Flow, *, id: str | None = None) -> SubmittedFlow:
        """Accept a tree of jobs, or nothing of it: children run first, then the job above them.

            await tr.submit_flow(Flow("default", "report", {}, [Flow("kurly", "page", {"n": n}) for n in range(9)]))

        Raises `WrongField` naming the part of the tree that is wrong.
        """
        asked = flow.submission(id)
        job = await self._producer.submit(asked)
        return SubmittedFlow(job.id, job.status, job.replayed, children=children_of(job.id, asked))

    async def flow(self, job_id: str, *, after: str = "", limit: int = FLOW_LIMIT) -> FlowPage:
        """A job with the jobs that it spawned, and theirs; `after` is the `next` of the page before."""
        return await read_flow(self._store, *self._locate(job_id), after=after, limit=limit)

    async def get(self, job_id: str) -> JobInfo:
        """A job as it is now. Raises `JobNotFound`."""
        record, events = await read_visible(self._store, job_id)
        last = decode_event(events[-1]) if record.state.ended and events else None
        return JobInfo(
            id=record.id,
            platform=record.platform,
            kind=record.kind,
            status=record.state,
            attempt=record.attempt,
            failures=record.failures,
            crashes=record.crashes,
            accepted_at=iso(record.accepted_ms),
            started_at=iso(record.started_ms) if record.started_ms else None,
            ended_at=iso(record.ended_ms) if record.ended_ms else None,
            worker=record.owner if record.state is State.RUNNING else None,
            progress=progress_of(record.attempt, events),
            result=last.result if last else None,
            error=last.error if last else None,
        )

    async def history(self, job_id: str) -> list[Event]:
        """All that happened to a job so far: each step of each attempt once, in order."""
        _, events = await read_visible(self._store, job_id)
        return [decode_event(raw) for raw in events]

    async def follow(self, job_id: str, *, after: str | None = None) -> AsyncIterator[Event]:
        """The events of a job as they come, to its end; `after` is the id of the last one that you have."""
        async for raw in follow(self._store, job_id, after=after):
            yield decode_event(raw)

    @overload
    async def result(self, job_id: str, *, timeout: float | None = None) -> Any: ...  # noqa: ASYNC109 # as below

    @overload
    async def result(self, job_id: str, *, type: type[T], timeout: float | None = None) -> T: ...  # noqa: ASYNC109

    async def result(self, job_id: str, *, type: Any = None, timeout: float | None = None) -> Any:  # noqa: ASYNC109 # blocking twins need it
        """Wait for a job's result, as JSON has it, or as a `type` such as the Struct that its handler returned.

        Raises `JobFailed`, `JobCancelled`, `TimeoutError` after `timeout` seconds, and `ValueError` for a result that
        does not fit the type.
        """
        try:
            async with asyncio.timeout(timeout) as limit:
                record, raw = await wait_for_end(self._store, job_id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {job_id} has not ended within {timeout:g} s; it goes on") from None
        event = decode_event(raw)
        if record.state is State.CANCELLED:
            raise JobCancelled(job_id, event.by, event.reason)
        if record.state is State.FAILED:
            error = event.error or Failure("Unknown", "the store keeps no error of it")
            raise JobFailed(job_id, record.attempt, error.type, error.message, error.traceback)
        return event.result if type is None else result_as(type, event.result, job_id)


def find_store(url: str | None, data: Path) -> tuple[str, StreamsSettings]:
    """The URL of the store, and the settings of its platforms. Raises `NoStore` when no URL is known."""
    settings = StreamsSettings.read()
    if found := url or settings.url:
        return found, settings
    running = find_running(data)
    if running is None:
        raise NoStore(
            f"no store is known, and no `up` runs on the data folder {data}: "
            f"start everything with `{PROGRAM} up`, or set REDIS_URL."
        )
    told = {name: value for name, value in settings_of(data).items() if not os.environ.get(name)}
    return running, StreamsSettings.read(Environment({**os.environ, **told}))


def submission(job: Named, key: str | None, options: Mapping[str, Any]) -> Submission:
    return Submission(job.platform, job.kind, job.args, key, Options(**as_text(options)))


def as_text(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options with each time as text, which keeps its offset from UTC."""
    return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in options.items()}
