"""One worker for many tests: starting it takes longer than most of what they ask of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.producers.platforms import OTHERS, SHOPS
from tests.life.asking import STEERED
from tests.support.deployment import Deployment
from tests.support.processes import UNHURRIED
from tests.support.server import shaped


@asynccontextmanager
async def lasting(folder: Path) -> AsyncIterator[Deployment]:
    """A deployment on a store of its own, which is not emptied between two tests."""
    with shaped(folder / "data") as store:
        async with Deployment(store.url, folder) as deployment:
            yield deployment


@pytest.fixture(scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A worker of every shop and every platform that runs many, for all tests of a module.

    Each test knows its jobs by their ids. One that counts or pauses what a platform does takes one that no other takes.
    """
    async with lasting(tmp_path_factory.mktemp("standing")) as deployment:
        environment = {"TAILRACE_HANDLERS": STEERED, "TAILRACE_OBEY_SECONDS": "0.5"}
        await deployment.consumer(*OTHERS, *SHOPS, pace=UNHURRIED, **environment)
        yield deployment
