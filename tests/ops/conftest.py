"""What many tests of the commands need: a command in this process, and a deployment that stands."""

from collections.abc import AsyncIterator

import pytest

from tailrace.ops.up.own_store import OwnStore
from tests.ops.commands import Here
from tests.support.deployment import Deployment
from tests.support.processes import GatewayProcess
from tests.support.server import QUICK


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture(scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A store and a consumer for all tests of a module that leave each other alone: starting it takes longer than what
    is asked of it. Jobs of `research` that fail come back soon."""
    folder = tmp_path_factory.mktemp("standing")
    (folder / "soon.toml").write_text("[platforms.research]\nbackoff_seconds = 0.05\n")
    with OwnStore(folder / "data", extra_args=QUICK) as store:
        async with Deployment(store.url, folder) as deployment:
            await deployment.consumer("research", "hwahae", "kurly", TAILRACE_CONFIG=str(folder / "soon.toml"))
            yield deployment


@pytest.fixture(scope="module")
async def gateway(standing: Deployment) -> GatewayProcess:
    """A gateway beside that consumer."""
    return await standing.gateway()
