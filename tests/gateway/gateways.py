"""Real gateways for the tests: as a process of their own, or on a thread when a setting has no variable."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx2
import psutil
from msgspec.structs import replace
from starlette.applications import Starlette

from tailrace.gateway.application import create_app
from tailrace.gateway.server import Server, bind, url_of
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.process import lifeline
from tailrace.streams.process.settings import Environment
from tests.support.eventually import eventually
from tests.support.ports import free_port

CHECKOUT = Path(__file__).parents[2]
DRILLING = {"TAILRACE_DRILL": "on"}  # the jobs of most tests, also behind keys
TWO = {"TAILRACE_GATEWAY_PROCESSES": "2"}

PACED = """
import sys
from msgspec.structs import replace
from tailrace.gateway.__main__ import run
from tailrace.gateway.settings import GatewaySettings
settings, ping, grace = GatewaySettings.read(), *map(float, sys.argv[1:])
if ping:
    settings = replace(settings, ping_seconds=ping, caps=replace(settings.caps, read_seconds=2 * ping))
sys.exit(run(replace(settings, grace_seconds=grace) if grace else settings))
"""


def environment(store_url: str | None, **more: str) -> dict[str, str]:
    """The variables of a gateway, with nothing of the machine that runs the tests."""
    strange = ("REDIS_", "TAILRACE_", "PYTHONDONTWRITEBYTECODE")  # without the last one a start is a fifth shorter
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    given = {"REDIS_URL": store_url} if store_url else {}
    return {**kept, "HOST": "127.0.0.1", "LOG_FORMAT": "text", **DRILLING, **given, **more}


class GatewayProcess:
    """`python -m tailrace.gateway`, from its first answer to its end."""

    def __init__(
        self,
        store_url: str,
        variables: Mapping[str, str] | None = None,
        *,
        fds: tuple[int, ...] = (),
        ping_seconds: float = 0,  # and twice as long for who does not read
        grace_seconds: float = 0,
        command: Sequence[str] = ("-m", "tailrace.gateway"),
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = environment(store_url, PORT=str(self.port), **(variables or {}))
        self._fds = fds
        paced = ("-c", PACED, str(ping_seconds), str(grace_seconds))
        self._command = paced if ping_seconds or grace_seconds else command

    def __enter__(self) -> Self:
        # Never written to: it closes when the test run ends, however it ends, and the gateway ends with it.
        held, self._lifeline = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, *self._command],
            cwd=CHECKOUT,
            env={lifeline.VARIABLE: str(held), **self._environment},
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(held, *self._fds),
        )
        os.close(held)
        wait_for_answer(self.url, self.process)
        return self

    def start_again(self) -> None:
        """At the same address, knowing nothing."""
        self.__exit__(None, None, None)
        self.__enter__()

    def stop(self) -> str:
        """End it with SIGTERM, if it still runs; all that it said."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=30)
        return said

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said = self.stop()
        os.close(self._lifeline)
        assert "Traceback" not in said, said


def wait_for_answer(url: str, process: subprocess.Popen[str]) -> None:
    patience = time.monotonic() + 90
    while True:
        try:
            httpx2.get(f"{url}/healthz").raise_for_status()
            return
        except httpx2.TransportError:
            assert process.poll() is None, f"the gateway ended with {process.returncode}: {process.communicate()[1]}"
            assert time.monotonic() < patience, "the gateway does not answer"
            time.sleep(0.02)


class GatewayThread(NamedTuple):
    url: str
    app: Starlette


@contextmanager
def gateway_thread(
    store_url: str, variables: Mapping[str, str] | None = None, *, ping_seconds: float = 15.0, **more: Any
) -> Iterator[GatewayThread]:
    """A gateway inside this process, told by variables as the program is, and by more settings by their names.

    Its loop is Python's own: two loops of uvloop in two threads crash now and then, or hang when they are closed.
    """
    read = GatewaySettings.read(Environment({"REDIS_URL": store_url, **DRILLING, **(variables or {})}), port=0)
    settings = replace(read, ping_seconds=ping_seconds, **more)
    listener = bind(settings.host, settings.port)
    url = url_of(listener)
    app = create_app(settings)
    server = Server(app, settings)
    server.config.loop = "asyncio"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield GatewayThread(url, app)
    finally:
        server.should_exit = True
        thread.join()


def children(parent: GatewayProcess) -> list[psutil.Process]:
    return psutil.Process(parent.process.pid).children()


async def serving(parent: GatewayProcess, count: int = 2) -> list[psutil.Process]:
    """All of its processes, once each of them listens."""

    def look_now() -> list[psutil.Process]:
        found = []
        for child in children(parent):
            with suppress(psutil.NoSuchProcess):
                if any(link.status == psutil.CONN_LISTEN for link in child.net_connections("tcp")):
                    found.append(child)
        return found if len(found) == count else []

    async def look() -> list[psutil.Process]:
        if not (found := look_now()):
            await asyncio.sleep(0.1)  # a look at all connections costs the processor that the processes need to start
        return found

    return await eventually(f"{count} processes listen", look)


@asynccontextmanager
async def connected(url: str, count: int) -> AsyncIterator[list[int]]:
    """Clients that were answered and stay; their ports."""
    address = urlsplit(url)
    links = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            links.append(writer)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        yield [writer.get_extra_info("sockname")[1] for writer in links]
    finally:
        for writer in links:
            writer.close()


def failed_start(store_url: str | None, *arguments: str, **variables: str) -> tuple[int, list[str]]:
    """The exit code of a gateway that cannot start, and the lines it wrote."""
    result = subprocess.run(
        [sys.executable, "-m", "tailrace.gateway", *arguments],
        cwd=CHECKOUT,
        env=environment(store_url, **variables),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.stdout == ""
    return result.returncode, result.stderr.splitlines()
