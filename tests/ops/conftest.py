"""What many tests of the commands need: a command in this process, and a deployment that stands."""

import argparse
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.ops.doctor.doctor import examine
from tailrace.ops.doctor.finding import Finding
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store
from tests.ops.commands import Examine, Here
from tests.support.builders import Desk
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


@pytest.fixture
async def desk(valkey_url: str) -> AsyncIterator[Desk]:
    """A platform without any consumer."""
    async with Store(valkey_url) as store:
        yield Desk(store, "research")


@pytest.fixture
def troubles(valkey_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examine:
    """What the doctor finds wrong with jobs; that no worker serves them does not count here."""
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("TAILRACE_BEAT_SECONDS", "0.05")
    monkeypatch.setenv("TAILRACE_DEADLINE_SECONDS", "0.3")
    monkeypatch.setattr(
        "tailrace.ops.doctor.way_forward.SECOND_LOOK_SECONDS", 0.05
    )  # nothing moves here between two looks
    monkeypatch.setattr("tailrace.ops.doctor.missed_calls.PATIENCE_SECONDS", 0.05)

    async def look(*, repair: bool = False) -> list[Finding]:
        found = await examine(argparse.Namespace(data=tmp_path, repair=repair, json=True))
        return [f for f in found if f.level == "wrong" and "no consumer serves" not in f.says]

    return look
