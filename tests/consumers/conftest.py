"""A consumer inside the test process: real store, real heart, handlers of the test's own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tailrace.consumers.consumer import Consumer
from tailrace.consumers.registry import Handler
from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Producer, Submission
from tailrace.streams import PlatformKeys, Platforms, Policy, Store, Transitions
from tailrace.streams.history.events import Event, decode_event
from tailrace.streams.options import Options
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.replies import read_job
from tests.support import server

QUICK = {"TAILRACE_BEAT_SECONDS": "0.2", "TAILRACE_DEADLINE_SECONDS": "2", "TAILRACE_REAP_SECONDS": "0.2"}
PLATFORMS = Platforms(
    {"many": Policy(max_running_per_process=4), "single": Policy(max_running=1, max_running_per_process=1)}
)


class Bench:
    """Submits jobs and reads how they went."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.producer = Producer(Transitions(store), PLATFORMS)

    async def submit(
        self, kind: str, args: Any = None, *, platform: str = "many", key: str | None = None, **options: Any
    ) -> str:
        submission = Submission(platform, kind, {} if args is None else args, key, Options(**options))
        return (await self.producer.submit(submission)).id

    async def events(self, job_id: str) -> list[Event]:
        platform, _, key = job_id.partition(".")
        _, raw = await read_job(self.store, PlatformKeys(platform), key)
        return [decode_event(event) for event in raw]

    async def end_of(self, job_id: str, seconds: float = 60) -> list[Event]:
        """The whole history, once the job has ended."""
        with anyio.fail_after(seconds):
            while True:
                events = await self.events(job_id)
                if events[-1].status in {"completed", "failed", "cancelled"}:
                    return events
                await anyio.sleep(0.01)


Serve = Callable[[Mapping[str, Handler]], Awaitable[Shutdown]]


@pytest.fixture
async def bench(valkey_url: str) -> AsyncIterator[Bench]:
    async with Store(valkey_url) as store:
        yield Bench(store)


@asynccontextmanager
async def serving(
    store: Store, handlers: Mapping[str, Handler], platforms: Platforms = PLATFORMS, /, **variables: str
) -> AsyncIterator[tuple[Shutdown, ConsumerSettings]]:
    """A consumer at work; it is drained at the end, and its heart with it."""
    settings = ConsumerSettings.read(platforms, environment=Environment({**QUICK, **variables}))
    shutdown = Shutdown()
    async with Store(store.url) as own, anyio.create_task_group() as tasks:
        tasks.start_soon(Consumer(settings, platforms, handlers, own).run, shutdown)
        try:
            yield shutdown, settings
        finally:
            shutdown.request()


@asynccontextmanager
async def standing(folder: Path, handlers: Mapping[str, Handler]) -> AsyncIterator[Bench]:
    """A bench with a consumer at work on a store of its own, for all tests of a module that only look at their jobs."""
    with OwnStore(folder, extra_args=server.QUICK) as own:
        async with Store(own.url) as store, serving(store, handlers):
            yield Bench(store)
