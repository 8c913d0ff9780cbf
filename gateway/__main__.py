"""`python -m gateway`: one gateway in the foreground."""

import argparse
import asyncio
import resource
import sys

import structlog

from gateway.app import create_app
from gateway.server import Server, bind
from gateway.settings import GatewaySettings
from streams.connection import Store, check_fitness
from streams.errors import BadConfiguration, NoStore, TailraceError
from streams.lifeline import descriptor, watch
from streams.logs import configure_logs

log = structlog.get_logger()


def run(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    if (lifeline := descriptor()) is not None:
        watch(lifeline)
    allow_many_clients()
    app = create_app(settings)
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        say(f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another with PORT or --port")
        return 1
    asyncio.run(look_at_store(settings))
    Server(app, settings).run(sockets=[listener])
    log.info("gateway_ended")
    return 0


def allow_many_clients() -> None:
    """Each stream is an open file, and shells often allow only 1024 of them: take what we are allowed at most."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def look_at_store(settings: GatewaySettings) -> None:
    """Refuse a store that would lose jobs. One that is away may come back: until then requests get 503."""
    assert settings.streams.url is not None
    async with Store(settings.streams.url) as store:
        try:
            for sentence in await check_fitness(store):
                log.warning("store_advice", advice=sentence)
        except NoStore as error:
            log.warning("store_is_away", reason=str(error))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tailrace gateway", description="Serve HTTP in the foreground.")
    parser.add_argument("--host", help="a loopback address (default: HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="0: any free one (default: PORT, else 3989)")
    options = parser.parse_args(argv)
    try:
        configure_logs()
        return run(GatewaySettings.read(host=options.host, port=options.port))
    except TailraceError as error:
        say(str(error))
        return 69 if isinstance(error, NoStore) else 78 if isinstance(error, BadConfiguration) else 1


def say(sentence: str) -> None:
    sys.stderr.write(f"tailrace: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
