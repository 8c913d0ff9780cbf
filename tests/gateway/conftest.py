"""Two real gateways on one real store, and hands to move jobs with."""

from collections.abc import AsyncIterator, Callable, Iterator

import httpx2
import pytest

from ops.store import OwnStore
from streams.connection import Store
from tests.gateway import keyrings
from tests.gateway.gateways import GatewayProcess
from tests.support.builders import Desk


@pytest.fixture(scope="session")
def gateways(valkey: OwnStore) -> Iterator[tuple[str, str]]:
    """The addresses of two gateway processes."""
    with GatewayProcess(valkey.url) as one, GatewayProcess(valkey.url) as other:
        yield one.url, other.url


@pytest.fixture
def gateway(gateways: tuple[str, str], valkey_url: str) -> str:
    """One of them, on an empty store."""
    return gateways[0]


@pytest.fixture(scope="session")
def locked_gateways(valkey: OwnStore) -> Iterator[tuple[str, str]]:
    """The addresses of two gateway processes that ask for keys."""
    variables = {"TAILRACE_API_KEYS": keyrings.SETTING, "TAILRACE_CORS_ORIGINS": "https://app.example.org"}
    with GatewayProcess(valkey.url, variables) as one, GatewayProcess(valkey.url, variables) as other:
        yield one.url, other.url


@pytest.fixture
async def locked(locked_gateways: tuple[str, str], valkey_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of one of them, without a key, on an empty store."""
    async with httpx2.AsyncClient(base_url=locked_gateways[0], timeout=20, verify=False) as client:
        yield client


@pytest.fixture
async def http(gateway: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=gateway, timeout=20, verify=False) as client:
        yield client


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    async with Store(valkey_url) as store:
        yield store


@pytest.fixture
def desk(store: Store) -> Desk:
    """Hands on the platform `research`."""
    return Desk(store, "research")


@pytest.fixture
def desk_on(store: Store) -> Callable[[str], Desk]:
    return lambda platform: Desk(store, platform)
