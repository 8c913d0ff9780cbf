"""The client: submit jobs, watch them and act on them, from Python and straight on the store."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from msgspec import Struct

from tailrace.producers.actions import Actions
from tailrace.producers.following import follow, read_visible, wait_for_end
from tailrace.producers.kinds import ALL_KINDS, Kinds
from tailrace.producers.producer import Producer, Submission, Submitted
from tailrace.producers.schedules import Schedules
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import JobCancelled, JobFailed, NoStore, Refused, WrongField
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

P = ParamSpec("P")
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
        store = Store(url, settings.keyspace)
        await store.__aenter__()
        try:
            await check_fitness(store)
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

    async def submit(
        self, platform: str, kind: str, args: Any = None, *, id: str | None = None, **options: Unpack[JobOptions]
    ) -> Submitted:
        """Accept a job: `id` is your own key for it, and the same key with the same body is the same job.

        Raises `WrongField` naming the argument that is wrong, or `OtherBody` when the key is taken by another body.
        """
        return await self._producer.submit(submission(platform, kind, args, id, options))

    async def submit_many(
        self, platform: str, kind: str, many: Iterable[Any], **options: Unpack[JobOptions]
    ) -> list[Submitted | Refused]:
        """Accept one job for each args, in few trips; the answers are in the order given."""
        return await self._producer.submit_many([submission(platform, kind, args, None, options) for args in many])

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

    async def result(self, job_id: str, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109 # blocking twins need it
        """Wait for a job's result. Raises `JobFailed`, `JobCancelled`, or `TimeoutError` after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            record, raw = await wait_for_end(self._store, job_id)
        event = decode_event(raw)
        if record.state is State.CANCELLED:
            raise JobCancelled(job_id, event.by, event.reason)
        if record.state is State.FAILED:
            error = event.error or Failure("Unknown", "the store keeps no error of it")
            raise JobFailed(job_id, record.attempt, error.type, error.message, error.traceback)
        return event.result


def find_store(url: str | None, data: Path) -> tuple[str, StreamsSettings]:
    """Where the store is, and which platforms there are. Raises `NoStore` when no address is known."""
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


def submission(platform: str, kind: str, args: Any, key: str | None, options: JobOptions) -> Submission:
    return Submission(platform, kind, plain(args), key, Options(**as_text(options)))


def plain(args: Any) -> Any:
    """Args as decoded JSON: of a dict, a Struct, a dataclass or a pydantic model."""
    if args is None:
        return {}
    try:
        return msgspec.to_builtins(args.model_dump(mode="json") if hasattr(args, "model_dump") else args)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongField("args", f"cannot be written as JSON: {error}") from None


def as_text(options: JobOptions) -> Mapping[str, Any]:
    """Options with each time as text, which keeps its offset from UTC."""
    return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in options.items()}


class Blocking(Generic[P, T]):
    """A method of `Tailrace` that waits for its answer, as a method of `Sync`."""

    def __init__(self, method: Callable[Concatenate[Tailrace, P], Awaitable[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, sync: "Sync", _: type["Sync"]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return sync.run(lambda client: self._method(client, *args, **kwargs))

        return call


class Sync:
    """The blocking twin of `Tailrace`, for Flask, Django and scripts: the same names, arguments and errors.

        with Sync() as tr:
            job = tr.submit("research", "drill", {"steps": 3})
            print(tr.result(job.id, timeout=60))

    One thread with an event loop serves all threads that use it.
    """

    submit = Blocking(Tailrace.submit)
    submit_many = Blocking(Tailrace.submit_many)
    get = Blocking(Tailrace.get)
    history = Blocking(Tailrace.history)
    result = Blocking(Tailrace.result)
    cancel = Blocking(Tailrace.cancel)
    retry = Blocking(Tailrace.retry)
    drop = Blocking(Tailrace.drop)
    pause = Blocking(Tailrace.pause)
    resume = Blocking(Tailrace.resume)
    restart = Blocking(Tailrace.restart)
    replay = Blocking(Tailrace.replay)
    drop_dead = Blocking(Tailrace.drop_dead)

    def __init__(self, url: str | None = None, *, data: Path | str = DEFAULT_DATA) -> None:
        self._client = Tailrace(url, data=data)
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(portal.wrap_async_context_manager(self._client))
            self._open = opening.pop_all()
        self._portal = portal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._open.__exit__(kind, error, trace)

    def run(self, ask: Callable[[Tailrace], Awaitable[T]]) -> T:
        """Wait for something that the asynchronous client does, such as `lambda tr: tr.schedules.list()`."""
        if self._portal is None:
            raise RuntimeError("a Sync client is open only inside a `with` block")
        return self._portal.call(ask, self._client)

    def follow(self, job_id: str, *, after: str | None = None) -> Iterator[Event]:
        """The events of a job as they come, to its end; `after` is the id of the last one that you have."""
        events = self._client.follow(job_id, after=after)

        async def next_event(_: Tailrace) -> Event | None:
            return await anext(events, None)

        async def close(_: Tailrace) -> None:
            await events.aclose()  # type: ignore[attr-defined] # an async generator has it

        try:
            while (event := self.run(next_event)) is not None:
                yield event
        finally:
            self.run(close)
