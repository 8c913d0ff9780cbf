"""Two real gateways on one real store, and hands to move jobs with."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
import redis

from tailrace.gateway.live.live import Live
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.keys import Keyspace
from tailrace.streams.store.connection import Store
from tests.gateway import keyrings
from tests.gateway.gateways import GatewayProcess
from tests.support.builders import Desk
from tests.support.ports import free_port
from tests.support.server import QUICK, SHAPE, Servers

LOCKED = {"TAILRACE_API_KEYS": keyrings.SETTING, "TAILRACE_CORS_ORIGINS": "https://app.example.org"}


# The gateways of a session outlive its tests, and a gateway remembers every platform and policy that its store ever
# named. So they have a server that no test of another folder writes to, and start again after a test that wrote any.


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStore]:
    """The server of these gateways, and of every test beside them."""
    with OwnStore(tmp_path_factory.mktemp("gateways") / "data", extra_args=QUICK) as server:
        yield server


@pytest.fixture(scope="session")
def one_url(valkey: OwnStore, servers: Servers) -> str:
    return servers.url(valkey)


@pytest.fixture(scope="session")
def lasting() -> list[GatewayProcess]:
    """The gateways of the session that run."""
    return []


@pytest.fixture
def valkey_url(valkey: OwnStore, servers: Servers, lasting: list[GatewayProcess]) -> Iterator[str]:
    """An empty store that the gateways of the session are on too."""
    url = servers.empty(valkey)
    yield url
    if SHAPE == "single":
        with redis.Redis.from_url(url) as client:
            changed = client.exists(Keyspace().platforms)
        if changed:
            servers.empty(valkey)
            for gateway in lasting:
                gateway.start_again()


@contextmanager
def kept(lasting: list[GatewayProcess], gateway: GatewayProcess) -> Iterator[str]:
    """The address of a gateway of the session, from its start to its end."""
    with gateway:
        lasting.append(gateway)
        yield gateway.url
        lasting.remove(gateway)


@pytest.fixture(scope="session")
def one_gateway(one_url: str, lasting: list[GatewayProcess]) -> Iterator[str]:
    with kept(lasting, GatewayProcess(one_url)) as url:
        yield url


@pytest.fixture(scope="session")
def gateways(one_url: str, one_gateway: str, lasting: list[GatewayProcess]) -> Iterator[tuple[str, str]]:
    """The addresses of two gateway processes. Most tests need only one: the other is started for who asks for both."""
    with kept(lasting, GatewayProcess(one_url)) as other:
        yield one_gateway, other


@pytest.fixture
def gateway(one_gateway: str, valkey_url: str) -> str:
    """One of them, on an empty store."""
    return one_gateway


@pytest.fixture(scope="session")
def one_locked_gateway(one_url: str, lasting: list[GatewayProcess]) -> Iterator[str]:
    """The address of a gateway process that asks for keys."""
    with kept(lasting, GatewayProcess(one_url, LOCKED)) as url:
        yield url


@pytest.fixture(scope="session")
def locked_gateways(one_url: str, one_locked_gateway: str, lasting: list[GatewayProcess]) -> Iterator[tuple[str, str]]:
    """The addresses of two of them."""
    with kept(lasting, GatewayProcess(one_url, LOCKED)) as other:
        yield one_locked_gateway, other


@pytest.fixture
async def locked(one_locked_gateway: str, valkey_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of one of them, without a key, on an empty store."""
    async with httpx2.AsyncClient(base_url=one_locked_gateway, timeout=20, verify=False) as client:
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


@pytest.fixture
def frail(tmp_path: Path) -> Iterator[OwnStore]:
    """A server of this test's own, to be frozen or killed, or to declare platforms on."""
    with OwnStore(tmp_path / "frail", port=free_port()) as server:
        yield server


@pytest.fixture
async def live(desk: Desk) -> AsyncIterator[Live]:
    """What a gateway knows of the jobs that are watched, inside this process."""
    live = Live(desk.store)
    running = asyncio.create_task(live.run())
    yield live
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.fixture
def untroubled(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever the gateways inside this process say, nothing of it is a traceback."""
    yield
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err, said
    assert [record for record in caplog.get_records("call") if record.exc_info] == []
