"""The store a command works on: the one REDIS_URL names, else that of a running `up`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ops.store import find_running
from streams.connection import Store
from streams.errors import NoStore
from streams.settings import StreamsSettings


def find_url(data: Path) -> str:
    url = StreamsSettings.read().url or find_running(data)
    if url is None:
        raise NoStore(
            f"no store is known, and no `up` runs on the data folder {data}: "
            "start everything with `python3 -m ops up`, or set REDIS_URL."
        )
    return url


@asynccontextmanager
async def reach(data: Path) -> AsyncIterator[Store]:
    async with Store(find_url(data)) as store:
        yield store
