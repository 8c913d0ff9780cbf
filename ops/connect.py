"""The store a command works on: the one REDIS_URL names, else that of a running `up`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tailrace.producers.client import find_store
from tailrace.streams.process.data_folder import settings_of
from tailrace.streams.store.connection import Store


def find_url(data: Path) -> str:
    """Where the store is. What the `up` that keeps it was told of platforms counts for this command too."""
    url, settings = find_store(None, data)
    if settings.url is None:
        use_settings(data)
    return url


def use_settings(data: Path) -> None:
    """Go by what the owner of this folder was told of platforms, where our own environment says nothing else."""
    for name, value in settings_of(data).items():
        if not os.environ.get(name):
            os.environ[name] = value


@asynccontextmanager
async def reach(data: Path) -> AsyncIterator[Store]:
    async with Store(find_url(data)) as store:
        yield store
