"""The store a command works on: the one REDIS_URL names, else that of a running `up`."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tailrace.ops.up.own_store import find_running
from tailrace.streams.errors import NoStore
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.process.settings import StreamsSettings
from tailrace.streams.store.connection import Store


def find_url(data: Path) -> str:
    """Where the store is. What the `up` that keeps it was told of platforms counts for this command too."""
    if url := StreamsSettings.read().url:
        return url
    url = find_running(data)
    if url is None:
        raise NoStore(
            f"no store is known, and no `up` runs on the data folder {data}: "
            f"start everything with `{PROGRAM} up`, or set REDIS_URL."
        )
    use_settings(data)
    return url


def use_settings(data: Path) -> None:
    """Go by what the owner of this folder was told of platforms, where our own environment says nothing else."""
    try:
        for name, value in json.loads((data / "store.json").read_text())["settings"].items():
            if not os.environ.get(name):
                os.environ[name] = str(value)
    except (OSError, ValueError, LookupError, AttributeError):
        return  # it has just ended, or is of an earlier version


@asynccontextmanager
async def reach(data: Path) -> AsyncIterator[Store]:
    async with Store(find_url(data)) as store:
        yield store
