"""`python -m tailrace.gateway`: one gateway in the foreground."""

import argparse
import asyncio
import resource
import signal
import socket
import sys

from msgspec.structs import replace

from tailrace.gateway.application import create_app
from tailrace.gateway.processes import keep_processes
from tailrace.gateway.server import Server, bind, collect_seldom, hold
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.errors import BadConfiguration, NoStore, TailraceError
from tailrace.streams.process.lifeline import descriptor, end_with_parent, watch
from tailrace.streams.process.logs import configure_logs, get_logger
from tailrace.streams.store.fitness import Fitness

log = get_logger()


def run(settings: GatewaySettings, listener: socket.socket | None = None, pulse: int | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. With a listener and a pulse, as one process of several."""
    for each in (signal.SIGTERM, signal.SIGINT):  # until the server handles them itself
        signal.signal(each, lambda *_: sys.exit(0))
    if settings.process:
        end_with_parent()
    if (lifeline := descriptor()) is not None:
        watch(lifeline)
    allow_many_clients()
    app = create_app(settings)
    is_parent = settings.process == 0 and settings.processes > 1
    try:
        listener = listener or bind(settings.host, settings.port)
        if is_parent:
            listener = hold(listener)
    except OSError as error:
        return cannot_listen(settings, error)
    if settings.process == 0:
        asyncio.run(look_at_store(settings))
    if is_parent:
        asyncio.run(keep_processes(settings, listener))
        log.info("gateway_stopped")
        return 0
    try:
        listener.listen()  # fails when another process took the same address at the same moment
    except OSError as error:
        return cannot_listen(settings, error)
    server = Server(app, settings, pulse)
    collect_seldom()
    server.run(sockets=[listener])
    log.info("gateway_stopped")
    return 1 if server.broken else 0


def cannot_listen(settings: GatewaySettings, error: OSError) -> int:
    reason = error.strerror or str(error)
    say(f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another with PORT or --port")
    return 1


def allow_many_clients() -> None:
    """Each stream is an open file, and shells often allow only 1024 of them: take what we are allowed at most."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def look_at_store(settings: GatewaySettings) -> None:
    """Refuse a store that would lose jobs. One that is away may come back: until then requests get 503."""
    assert settings.streams.url is not None
    async with settings.streams.open(settings.streams.url) as store:
        try:
            await Fitness(store, "gateway").check()
        except NoStore as error:
            log.warning("store_away", reason=str(error))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tailrace gateway", description="Serve HTTP in the foreground.")
    parser.add_argument(
        "--host", help="address to listen on; without API keys loopback only (default: HOST, else 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, help="port to listen on, 0: any free one (default: PORT, else 3989)")
    parser.add_argument(
        "--processes", type=int, help="processes on this port (default: TAILRACE_GATEWAY_PROCESSES, else 1)"
    )
    parser.add_argument("--process", type=int, default=0, help=argparse.SUPPRESS)  # which of several this is
    parser.add_argument("--listener", type=int, help=argparse.SUPPRESS)  # the socket it was given
    parser.add_argument("--pulse", type=int, help=argparse.SUPPRESS)  # where its parent listens for signs of life
    options = parser.parse_args(argv)
    try:
        configure_logs()
        settings = GatewaySettings.read(host=options.host, port=options.port, processes=options.processes)
        if not options.process:
            return run(settings)
        listener = socket.socket(fileno=options.listener)
        return run(replace(settings, process=options.process), listener, options.pulse)
    except TailraceError as error:
        say(str(error))
        return 69 if isinstance(error, NoStore) else 78 if isinstance(error, BadConfiguration) else 1


def say(sentence: str) -> None:
    sys.stderr.write(f"tailrace: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
