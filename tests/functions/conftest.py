"""A desk at an empty platform, on each kind of server."""

from collections.abc import AsyncIterator

import pytest

from tailrace.streams.store.connection import Store
from tests.support.builders import Desk


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with Store(store_url) as store:
        yield store


@pytest.fixture
def desk(store: Store) -> Desk:
    """A platform where any number of jobs may run."""
    return Desk(store)


@pytest.fixture
def shop(store: Store) -> Desk:
    """A platform where jobs run one at a time."""
    return Desk(store, "kurly", max_running=1)
