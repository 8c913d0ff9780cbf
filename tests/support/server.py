"""The real servers of a test session: each started once, when the first test asks for it."""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import redis

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore, bundled_server, find_server
from tests.support.sentinels import Sentinels


def find_redis() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found else None


QUICK = ("--appendfsync", "everysec")  # no test kills the servers of a session: they need not wait for the disk

SERVERS: dict[str, Callable[[], Path | None]] = {"valkey": bundled_server, "redis": find_redis}


SHAPES = ("single", "cluster", "sentinel")
SHAPE = os.environ.get("TAILRACE_TEST_STORE") or SHAPES[0]
assert SHAPE in SHAPES, f"TAILRACE_TEST_STORE is {SHAPE!r}; it must be one of {', '.join(SHAPES)}"


class Servers:
    """Starts the servers by name, and ends them all.

    With TAILRACE_TEST_STORE the stores of tests are clusters of three primaries, or servers behind sentinels.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, OwnStore] = {}
        self._shaped: dict[Path, OwnStore | OwnCluster | Sentinels] = {}
        self._ends = ExitStack()

    def get(self, name: str) -> OwnStore | None:
        """The running server, or None when this machine has no such program."""
        if name not in self.started:
            program = SERVERS[name]()
            if not program:
                return None
            self.started[name] = OwnStore(self.folder / name, server=program, extra_args=QUICK).start()
        return self.started[name]

    def url(self, server: OwnStore) -> str:
        """The store of tests that run on this server."""
        return self._shape(server).url

    def empty(self, server: OwnStore) -> str:
        """The same without keys. Scripts stay known, as on a server that has run for a while."""
        store = self._shape(server)
        if isinstance(store, OwnStore):
            flush(store.url)
        else:
            store.flush()
        return store.url

    def _shape(self, server: OwnStore) -> OwnStore | OwnCluster | Sentinels:
        if SHAPE == "single":
            return server
        if server.server not in self._shaped:
            made = shaped(self.folder / f"{server.server.name}-{SHAPE}", server.server).start()
            self._ends.callback(made.stop)
            self._shaped[server.server] = made
        return self._shaped[server.server]

    def stop(self) -> None:
        self._ends.close()
        for store in self.started.values():
            store.stop()


def shaped(folder: Path, server: Path | None = None) -> OwnStore | OwnCluster | Sentinels:
    """A store of a test's own, in the shape that is asked for."""
    if SHAPE == "cluster":
        return OwnCluster(folder, server=server, extra_args=QUICK)
    if SHAPE == "sentinel":
        return Sentinels(folder, server=server or find_server())
    return OwnStore(folder, server=server, extra_args=QUICK)


def flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()
