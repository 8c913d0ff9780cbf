"""`python -m tailrace.consumers [PLATFORM ...] [--handlers MODULE]`: one consumer in the foreground."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

import anyio
import structlog

from tailrace.consumers.consumer import Consumer
from tailrace.consumers.handlers import BUILT_IN
from tailrace.consumers.handlers.model import Model
from tailrace.consumers.registry import Handlers, load_handlers
from tailrace.consumers.settings import ConsumerSettings
from tailrace.producers.schedules import Schedules, configured
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import BadConfiguration, NoStore, StoreError, WrongField
from tailrace.streams.process import lifeline
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.process.logs import configure_logs
from tailrace.streams.process.settings import naming
from tailrace.streams.process.shutdown import RESTART, Shutdown
from tailrace.streams.schedules import Schedule
from tailrace.streams.store.connection import ANSWER_SECONDS, Store
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.transitions import Transitions

log = structlog.get_logger()

LEAVE_SECONDS = 1.0  # what handlers that were handed back may take to stop

NO_ADDRESS = (
    f"no store is known: start everything with `{PROGRAM} up`, "
    "or say where the store is, for example REDIS_URL=redis://127.0.0.1:6379"
)


def serve(platforms: list[str], handlers: str | None) -> int:
    """Run a consumer until a signal or a restart ends it; the exit code of the process."""
    configure_logs()
    streams = StreamsSettings.read()
    settings = ConsumerSettings.read(streams.platforms, serve=platforms, handlers=handlers)
    if streams.builtins:
        Model.read()  # handlers read it in each job; a wrong setting stops the consumer now
    if streams.url is None:
        raise NoStore(NO_ADDRESS)
    with naming(streams.file):
        schedules = configured(streams.schedules, streams.platforms, settings.platforms, streams.kinds)
    known = handlers_of(settings, streams, "--handlers" if handlers else "TAILRACE_HANDLERS")
    if (fd := lifeline.descriptor()) is not None:
        lifeline.watch(fd)

    async def run(url: str) -> int:
        shutdown = Shutdown()
        with shutdown.listening():
            # A link that went dead is given up well before the lease is.
            patience = min(ANSWER_SECONDS, settings.deadline_seconds / 2)
            async with Store(url, streams.keyspace, answer_seconds=patience) as store:
                fitness = Fitness(store)
                if await wait_for(fitness, shutdown):
                    await keep(schedules, Schedules(Transitions(store), streams.platforms, streams.kinds))
                    consumer = Consumer(settings, streams.platforms, known, store)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(fitness.run)
                        await consumer.run(shutdown)
                        tasks.cancel_scope.cancel()
                    return await leave(RESTART if consumer.restarting else min(1, consumer.left_behind))
        return 0

    return anyio.run(run, streams.url, backend_options={"use_uvloop": True})


def handlers_of(settings: ConsumerSettings, streams: StreamsSettings, named_by: str) -> Handlers:
    """The built-in handlers, unless they are left out, and the user's."""
    known = BUILT_IN if streams.builtins else Handlers()
    if settings.handlers:
        known = known.under(load_handlers(settings.handlers, named_by))
    if not known:
        raise BadConfiguration(
            f"{streams.file}: builtins is false and there are no other handlers; "
            "name yours with TAILRACE_HANDLERS=./handlers.py or --handlers"
        )
    return known


async def leave(code: int) -> int:
    """Leave even if a handler never stops: a loop that closes would wait for it."""
    handlers = asyncio.all_tasks() - {asyncio.current_task()}
    for handler in handlers:
        handler.cancel()
    if handlers:
        _, stubborn = await asyncio.wait(handlers, timeout=LEAVE_SECONDS)
        if stubborn:
            log.warning("handlers_left_behind", count=len(stubborn))
            os._exit(code)
    return code


async def keep(wanted: Sequence[Schedule], schedules: Schedules) -> None:
    """Keep the schedules of the configuration file; a store that cannot take them now must not stop us from working."""
    for schedule in wanted:
        try:
            await schedules.upsert(schedule)
        except (StoreError, WrongField) as error:
            log.warning("schedule_not_kept", schedule=schedule.name, platform=schedule.platform, error=str(error))


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


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tailrace consume", description="Run one consumer in the foreground.")
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help="what to serve; default: WORKER_PLATFORMS, else all"
    )
    parser.add_argument("--handlers", metavar="MODULE", help="import path or file of your handlers")
    options = parser.parse_args(argv)
    try:
        return serve(options.platforms, options.handlers)
    except BadConfiguration as error:
        sys.stderr.write(f"{error}\n")
        return 78
    except NoStore as error:
        sys.stderr.write(f"{error}\n")
        return 69


if __name__ == "__main__":
    sys.exit(main())
