"""The client for programs that block: the same names, arguments and errors, without `await`."""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar, Unpack, overload

import anyio
from anyio.from_thread import BlockingPortal

from tailrace.producers.client import Tailrace
from tailrace.producers.declarations import Declared
from tailrace.producers.schedules import Schedules
from tailrace.producers.submissions import Submitted
from tailrace.streams.errors import Refused
from tailrace.streams.history.events import Event
from tailrace.streams.options import JobOptions
from tailrace.streams.process.data_folder import DEFAULT_DATA

P = ParamSpec("P")
T = TypeVar("T")
Args = TypeVar("Args")


class Waits:
    """An object with blocking methods, which call the asynchronous object behind it."""

    def wait_for(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        raise NotImplementedError


class Blocking(Generic[P, T]):
    """A method of an asynchronous class that waits for its answer, as a method of its blocking twin."""

    def __init__(self, method: Callable[Concatenate[Any, P], Awaitable[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, here: Waits, _: type[Waits]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return here.wait_for(lambda there: self._method(there, *args, **kwargs))

        return call


class SyncSchedules(Waits):
    """The schedules of a `Sync` client."""

    upsert = Blocking(Schedules.upsert)
    list = Blocking(Schedules.list)
    get = Blocking(Schedules.get)
    pause = Blocking(Schedules.pause)
    resume = Blocking(Schedules.resume)
    remove = Blocking(Schedules.remove)

    def __init__(self, client: "Sync") -> None:
        self._client = client

    def wait_for(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        return self._client.run(lambda client: ask(client.schedules))


class Opened(NamedTuple):
    """An open client, in the process that opened it."""

    pid: int
    client: Tailrace
    portal: BlockingPortal
    thread: Thread


def open_in_thread(client: Tailrace) -> Opened:
    """Open a client in a thread of its own, with an event loop.

    Not by anyio's `start_blocking_portal`: that is a generator, which waits for its thread when it is collected, for
    ever in a forked process.
    """
    ready: Future[BlockingPortal] = Future()

    async def keep_open() -> None:
        try:
            async with client, BlockingPortal() as portal:
                ready.set_result(portal)
                await portal.sleep_until_stopped()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = Thread(target=anyio.run, args=(keep_open,), name="tailrace", daemon=True)
    thread.start()
    return Opened(os.getpid(), client, ready.result(), thread)


class Sync(Waits):
    """The blocking twin of `Tailrace`, for Flask, Django and scripts: the same names, arguments and errors.

        with Sync() as tr:
            job = tr.submit("research", "drill", {"steps": 3})
            print(tr.result(job.id, timeout=60))

    One thread with an event loop serves all threads that use it. A client that lives as long as its program needs no
    `with`: it opens itself with the first call, also in each process that a server forks, and `close` ends it.
    """

    get = Blocking(Tailrace.get)
    history = Blocking(Tailrace.history)
    cancel = Blocking(Tailrace.cancel)
    retry = Blocking(Tailrace.retry)
    signal = Blocking(Tailrace.signal)
    flow = Blocking(Tailrace.flow)
    submit_flow = Blocking(Tailrace.submit_flow)
    drop = Blocking(Tailrace.drop)
    pause = Blocking(Tailrace.pause)
    resume = Blocking(Tailrace.resume)
    restart = Blocking(Tailrace.restart)
    replay = Blocking(Tailrace.replay)
    drop_dead = Blocking(Tailrace.drop_dead)

    def __init__(self, url: str | None = None, *, data: Path | str = DEFAULT_DATA) -> None:
        self.schedules = SyncSchedules(self)
        self._where = (url, data)
        self._opened: Opened | None = None
        self._closed = False
        self._one_by_one = Lock()

    def __enter__(self) -> Self:
        self._closed = False
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection to the store, and the thread behind this client."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened and opened.pid == os.getpid():
            opened.portal.call(opened.portal.stop)
            opened.thread.join()

    def _open(self) -> "Opened":
        """The client that this process has opened. A forked process opens its own, because threads are not forked."""
        with self._one_by_one:
            if self._closed:
                raise RuntimeError("this Sync client is closed; open another one")
            if self._opened is None or self._opened.pid != os.getpid():
                url, data = self._where
                self._opened = open_in_thread(Tailrace(url, data=data))
            return self._opened

    def run(self, ask: Callable[[Tailrace], Awaitable[T]]) -> T:
        """Call the asynchronous client and wait for its answer, such as `lambda tr: tr.get("research.a")`."""
        opened = self._open()
        return opened.portal.call(ask, opened.client)

    def wait_for(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        return self.run(ask)

    # Methods with overloads are written out: a descriptor would know only one of them.

    @overload
    def submit(
        self, platform: str, kind: str, args: Any = None, *, id: str | None = None, **options: Unpack[JobOptions]
    ) -> Submitted: ...

    @overload
    def submit(
        self,
        handler: Declared[Args],
        args: Args,
        *,
        platform: str | None = None,
        id: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Submitted: ...

    def submit(self, *job: Any, **options: Any) -> Submitted:
        """Accept a job: by platform and kind, or by the handler itself; as `Tailrace.submit`."""
        return self.run(lambda client: client.submit(*job, **options))

    @overload
    def submit_many(
        self, platform: str, kind: str, many: Iterable[Any], **options: Unpack[JobOptions]
    ) -> list[Submitted | Refused]: ...

    @overload
    def submit_many(
        self,
        handler: Declared[Args],
        many: Iterable[Args],
        *,
        platform: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Submitted | Refused]: ...

    def submit_many(self, *jobs: Any, **options: Any) -> list[Submitted | Refused]:
        """Accept one job for each args, in few trips; the answers are in the order given."""
        return self.run(lambda client: client.submit_many(*jobs, **options))

    @overload
    def result(self, job_id: str, *, timeout: float | None = None) -> Any: ...

    @overload
    def result(self, job_id: str, *, type: type[T], timeout: float | None = None) -> T: ...

    def result(self, job_id: str, *, type: Any = None, timeout: float | None = None) -> Any:
        """Wait for a job's result, as `Tailrace.result`."""
        return self.run(lambda client: client.result(job_id, type=type, timeout=timeout))

    def follow(self, job_id: str, *, after: str | None = None) -> Iterator[Event]:
        """The events of a job as they come, to its end; `after` is the id of the last one that you have."""
        events = self._open().client.follow(job_id, after=after)

        async def next_event(_: Tailrace) -> Event | None:
            return await anext(events, None)

        async def close(_: Tailrace) -> None:
            await events.aclose()  # type: ignore[attr-defined] # an async generator has it

        try:
            while (event := self.run(next_event)) is not None:
                yield event
        finally:
            self.run(close)
