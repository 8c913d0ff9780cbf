"""Fixtures for every test: real servers, and what to do when a tool is missing."""

import os
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from ops.store import OwnStore
from tests.support.server import SERVERS, Servers, empty

LEFT_OUT = pytest.StashKey[set[str]]()

LeaveOut = Callable[[str], NoReturn]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


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
    for reason in sorted(config.stash.setdefault(LEFT_OUT, set())):
        terminalreporter.line(f"left out: {reason}", yellow=True)


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


@pytest.fixture
def store_url(server: OwnStore) -> str:
    """An empty store, on each kind of server."""
    return empty(server)


@pytest.fixture
def valkey_url(valkey: OwnStore) -> str:
    """An empty store, on one server."""
    return empty(valkey)
