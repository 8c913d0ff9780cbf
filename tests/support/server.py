"""The real servers of a test session: each started once, when the first test asks for it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import redis

from tailrace.ops.up.own_store import OwnStore, bundled_server


def find_redis() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found else None


QUICK = ("--appendfsync", "everysec")  # nobody kills the servers of a session: they need not wait for the disk

SERVERS: dict[str, Callable[[], Path | None]] = {"valkey": bundled_server, "redis": find_redis}


class Servers:
    """Starts the servers by name, and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, OwnStore] = {}

    def get(self, name: str) -> OwnStore | None:
        """The running server, or None when this machine has no such program."""
        if name not in self.started:
            program = SERVERS[name]()
            if not program:
                return None
            self.started[name] = OwnStore(self.folder / name, server=program, extra_args=QUICK).start()
        return self.started[name]

    def stop(self) -> None:
        for store in self.started.values():
            store.stop()


def empty(store: OwnStore) -> str:
    """Forget every key, and return the URL. Scripts stay known, as on a server that has run for a while."""
    with redis.Redis.from_url(store.url) as client:
        client.flushall()
    return store.url
