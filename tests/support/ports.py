"""Ports for the servers of the tests, which no connection takes before the server does, or while it is restarted."""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle

# Below those that Linux gives to connections, above the last one that browsers refuse. The processes of one test run
# share them out: a port that is free may be one that another process is about to listen on.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORTS = range(11_000 + WORKER, 32_768, WORKERS)

_begin = random.randrange(len(PORTS))  # several test runs side by side begin at different ports
_next: Iterator[int] = cycle((*PORTS[_begin:], *PORTS[:_begin]))


def free_port() -> int:
    """Return a port that is free; this process returns it again only after all the others."""
    while True:
        port = next(_next)
        with suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
