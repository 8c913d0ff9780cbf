"""`python -m tailrace.consumers [PLATFORM ...] [--handlers MODULE] [--reload]`: one consumer in the foreground."""

import argparse
import asyncio
import os
import sys

import anyio

from tailrace.consumers.consumer import LEAVE_SECONDS
from tailrace.consumers.program.loading import load_handlers
from tailrace.consumers.program.reload import keep_reloading
from tailrace.consumers.program.serving import plan, serve
from tailrace.consumers.settings import ConsumerSettings
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import BadConfiguration, NoStore
from tailrace.streams.process import lifeline
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.process.logs import configure_logs, get_logger
from tailrace.streams.process.shutdown import Shutdown

log = get_logger()

NO_ADDRESS = (
    f"no store is known: run `{PROGRAM} up`, which starts one, or set REDIS_URL, for example redis://127.0.0.1:6379/0"
)


def run(platforms: list[str], handlers: str | None) -> int:
    """Run a consumer until a signal or a restart ends it; the exit code of the process."""
    configure_logs()
    streams = StreamsSettings.read()
    settings = ConsumerSettings.read(streams.platforms, serve=platforms, handlers=handlers)
    if streams.url is None:
        raise NoStore(NO_ADDRESS)
    named_by = "--handlers" if handlers else "TAILRACE_HANDLERS"
    own = load_handlers(settings.handlers, named_by) if settings.handlers else {}
    planned = plan(streams.url, streams, settings, own)
    if (fd := lifeline.descriptor()) is not None:
        lifeline.watch(fd)

    async def until_told() -> int:
        shutdown = Shutdown()
        with shutdown.listening():
            return await leave(await serve(planned, shutdown))

    return anyio.run(until_told, backend_options={"use_uvloop": True})


async def leave(code: int) -> int:
    """Exit even if a handler never stops: closing the loop would wait for it."""
    handlers = asyncio.all_tasks() - {asyncio.current_task()}
    for handler in handlers:
        handler.cancel()
    if handlers:
        _, stubborn = await asyncio.wait(handlers, timeout=LEAVE_SECONDS)
        if stubborn:
            log.warning("handlers_left_behind", count=len(stubborn))
            os._exit(code)
    return code


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tailrace consume", description="Run one consumer in the foreground.")
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help="platforms to serve (default: WORKER_PLATFORMS, else all)"
    )
    parser.add_argument("--handlers", metavar="MODULE", help="import path or file of your handlers")
    parser.add_argument(
        "--reload", action="store_true", help="restart when a file of the handlers changes (development)"
    )
    options = parser.parse_args(argv)
    try:
        if options.reload:
            configure_logs()
            words = [*options.platforms, *([f"--handlers={options.handlers}"] if options.handlers else [])]
            return anyio.run(keep_reloading, words, options.handlers or os.environ.get("TAILRACE_HANDLERS"))
        return run(options.platforms, options.handlers)
    except BadConfiguration as error:
        sys.stderr.write(f"{error}\n")
        return 78
    except NoStore as error:
        sys.stderr.write(f"{error}\n")
        return 69


if __name__ == "__main__":
    sys.exit(main())
