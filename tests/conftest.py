"""Fixtures for every test: real servers, and what to do when a tool is missing."""

import fcntl
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
import structlog

from tailrace.ops.up.own_store import OwnStore
from tests.support.deployment import Deployment
from tests.support.server import SERVERS, SHAPE, Servers

DOOR, ROOM = Path(__file__).with_name("test_house.py"), Path(__file__)
LONG_FIRST = ("chaos", "page", "life", "ops", "consumers", "seeds", "model", "typing", "streams", "gateway")

LEFT_OUT = pytest.StashKey[set[str]]()
TOLD = pytest.StashKey[list[str]]()

SEED = os.environ.get("TAILRACE_SEED") or secrets.token_hex(4)

LeaveOut = Callable[[str], NoReturn]


class Output:
    """The present `sys.stdout`. pytest replaces it between the parts of a test, and Python before 3.13 crashes when
    another thread prints to it at that moment: `print` looks it up and does not hold it."""

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


structlog.configure(
    # As our processes do: earlier versions of structlog show every local variable otherwise, which takes seconds.
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    logger_factory=structlog.PrintLoggerFactory(file=Output()),  # type: ignore[arg-type] # all it needs
)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests run beside each other, but nothing runs beside one that is marked `alone`.

    Through the door goes one at a time: who waits for an empty room stands in it, and nobody else comes in. To wait
    is no part of a test: its time begins inside. Door and room are locks on files that are there anyway.
    """
    with ROOM.open() as room:
        with DOOR.open() as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for many processes comes first, what is done in a moment fills the end."""
    items.sort(key=lambda item: LONG_FIRST.index(folder) if (folder := item.path.parent.name) in LONG_FIRST else 99)


@pytest.fixture(scope="session")
def leave_out(pytestconfig: pytest.Config) -> LeaveOut:
    """Skip what this machine has no tool for, and say so at the end; with CI=true that is an error."""

    def give_up(reason: str) -> NoReturn:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI leaves nothing out: {reason}")
        pytestconfig.stash.setdefault(LEFT_OUT, set()).add(reason)
        pytest.skip(reason)

    return give_up


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out: set[str] = config.stash.get(LEFT_OUT, set())
    for reason in sorted(left_out):
        terminalreporter.line(f"left out: {reason}", yellow=True)
    for line in config.stash.get(TOLD, []):
        terminalreporter.line(line)


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Have a line of a report printed at the end of the run."""
    return pytestconfig.stash.setdefault(TOLD, []).append


@pytest.fixture
def dice(request: pytest.FixtureRequest, tell: Callable[[str], None]) -> Random:
    """Chance that can be replayed: each test has its own, all come from TAILRACE_SEED."""
    tell(f"TAILRACE_SEED={SEED} replays {request.node.name}")
    return Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Servers, leave_out: LeaveOut) -> OwnStore:
    """Each kind of server in turn."""
    return servers.get(request.param) or leave_out(f"there is no {request.param} server on this machine")


@pytest.fixture(scope="session")
def valkey(servers: Servers, leave_out: LeaveOut) -> OwnStore:
    """One server, for tests that would say the same on another: the bundled one, else any."""
    return servers.get("valkey") or servers.get("redis") or leave_out("there is no server on this machine")


@pytest.fixture(scope="session")
def one_url(valkey: OwnStore, servers: Servers) -> str:
    """The store of `valkey_url`, for what outlives a test."""
    return servers.url(valkey)


@pytest.fixture
def single_server() -> None:
    """For a test that changes the settings of its server, or counts its calls."""
    if SHAPE != "single":
        pytest.skip("it is about a single server")


@pytest.fixture
def store_url(server: OwnStore, servers: Servers) -> str:
    """An empty store, on each kind of server."""
    return servers.empty(server)


@pytest.fixture
def valkey_url(valkey: OwnStore, servers: Servers) -> str:
    """An empty store, on one server."""
    return servers.empty(valkey)


@pytest.fixture
async def deployment(valkey_url: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    """An empty store, and every process the test starts on it."""
    async with Deployment(valkey_url, tmp_path) as deployment:
        yield deployment
