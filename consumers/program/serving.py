"""Runs a consumer from its settings on: `consume` inside a program of yours, `serve` in a process of its own."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from tailrace.consumers.consumer import Consumer
from tailrace.consumers.handlers import BUILT_IN
from tailrace.consumers.handlers.model import Model
from tailrace.consumers.registry import Handler, Handlers
from tailrace.consumers.settings import ConsumerSettings
from tailrace.producers.client import find_store
from tailrace.producers.policies import Policies
from tailrace.producers.schedules import Schedules, configured
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import BadConfiguration, StoreError, WrongField
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.data_folder import DEFAULT_DATA
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.settings import naming
from tailrace.streams.process.shutdown import RESTART, Shutdown
from tailrace.streams.schedules import Schedule
from tailrace.streams.store.connection import ANSWER_SECONDS
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.transitions import Transitions

log = get_logger()


class Plan(Struct, frozen=True):
    """A consumer that can start: everything that could be wrong with its settings was checked."""

    url: str
    streams: StreamsSettings
    settings: ConsumerSettings
    handlers: Mapping[str, Handler]
    schedules: Sequence[Schedule]


def plan(url: str, streams: StreamsSettings, settings: ConsumerSettings, own: Mapping[str, Handler]) -> Plan:
    """Check what a consumer is to serve; `own` are the user's handlers. Raises `BadConfiguration`."""
    if streams.builtins:
        Model.read()  # handlers read it in each job; a wrong setting stops the consumer now
    known: Handlers[Any] = BUILT_IN if streams.builtins else Handlers()
    handlers = known.under(own)
    if not handlers:
        raise BadConfiguration(
            f"{streams.file}: builtins is false and there are no other handlers; "
            "name yours with TAILRACE_HANDLERS=./handlers.py or --handlers"
        )
    for kind, handler in own.items():
        if handler.platform and handler.platform not in streams.platforms:
            declared = ", ".join(streams.platforms)
            raise BadConfiguration(
                f"the handler of {kind!r} names the platform {handler.platform!r}; declared are {declared}"
            )
    with naming(streams.file):
        schedules = configured(streams.schedules, streams.platforms, settings.platforms, streams.kinds)
    return Plan(url, streams, settings, handlers, schedules)


async def serve(plan: Plan, shutdown: Shutdown) -> int:
    """Run a consumer until a shutdown or a restart is asked for; the exit code of a process that does only this."""
    settings, streams = plan.settings, plan.streams
    # A link that went dead is given up well before the lease is.
    patience = min(ANSWER_SECONDS, settings.deadline_seconds / 2)
    async with streams.open(plan.url, patience) as store:
        fitness = Fitness(store, "consumer")
        if not await wait_for(fitness, shutdown):
            return 0
        await keep(plan.schedules, Schedules(Transitions(store), streams.platforms, streams.kinds))
        await begin(streams, Policies(Transitions(store), streams.platforms))
        consumer = Consumer(settings, streams.platforms, plan.handlers, store)
        watching = asyncio.create_task(fitness.run())
        try:
            await consumer.run(shutdown)
        finally:
            watching.cancel()
    return RESTART if consumer.restarting else min(1, consumer.left_behind)


async def consume(
    handlers: Mapping[str, Handler],
    *,
    platforms: Sequence[str] = (),
    url: str | None = None,
    data: Path | str = DEFAULT_DATA,
    signals: bool = True,
) -> None:
    """Run a consumer inside this program, with its heart, until it is cancelled or SIGTERM or SIGINT comes.

    Either one drains: running jobs may finish within TAILRACE_GRACE_SECONDS, the rest is handed back at no cost. A
    second one hands back at once. `signals=False` leaves signals to the program, which then cancels this task. Without
    `platforms` it serves WORKER_PLATFORMS, else all; without a URL it uses REDIS_URL, else the store of a running `up`.
    When a restart of its platforms is asked for, it drains and begins again. Logging is left as the program has it.
    Raises `BadConfiguration` and `NoStore`.
    """
    if isinstance(platforms, str):
        platforms = (platforms,)
    if signals and threading.current_thread() is not threading.main_thread():
        raise BadConfiguration("signals: only the main thread hears them; call consume(…, signals=False) here")
    shutdown = Shutdown()
    with shutdown.listening() if signals else nullcontext():
        while not shutdown.drain.is_set():
            found, streams = find_store(url, Path(data))
            settings = ConsumerSettings.read(streams.platforms, serve=platforms)
            working = asyncio.create_task(serve(plan(found, streams, settings, handlers), shutdown))
            try:
                code = await asyncio.shield(working)
            except asyncio.CancelledError:
                shutdown.request()
                await drained(working, shutdown)
                raise
            if code != RESTART or shutdown.now.is_set():
                return
            shutdown.drain.clear()


async def drained(working: asyncio.Task[int], shutdown: Shutdown) -> None:
    """Wait for the end of a consumer; a second cancel is its second signal."""
    with anyio.CancelScope(shield=True):  # a cancelled scope would cancel again and again
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                shutdown.request()
    working.result()


async def keep(wanted: Sequence[Schedule], schedules: Schedules) -> None:
    """Keep the schedules of the configuration file; a store that cannot take them now must not stop the consumer."""
    for schedule in wanted:
        try:
            await schedules.upsert(schedule)
        except (StoreError, WrongField) as error:
            log.warning("schedule_not_kept", schedule=schedule.name, platform=schedule.platform, error=str(error))


async def begin(streams: StreamsSettings, policies: Policies) -> None:
    """Follow the policies in the store, and write those of the file there; if that fails now, follow the file."""
    try:
        await policies.begin(streams)
    except (StoreError, BrokenOperation) as error:
        log.warning("policies_not_kept", error=str(error))


async def wait_for(fitness: Fitness, shutdown: Shutdown) -> bool:
    """Wait until the store answers and is fit; False when asked to stop meanwhile."""
    while not shutdown.drain.is_set():
        try:
            await fitness.check()
        except BadConfiguration:
            raise
        except StoreError as error:
            log.warning("store_away", error=str(error), retry_seconds=1)
            with anyio.move_on_after(1):
                await shutdown.drain.wait()
        else:
            return True
    return False
