"""Many live clients in a process of their own, each as cheap as can be: `listeners.py PORT PATHS`.

It does what the lines on stdin say, and answers each with one line of JSON: `more N SECONDS` connects as many more and
waits until each has heard something, not longer than that; `count` begins to count what comes and how late it is;
`stop N SECONDS` ends that when N have come or the time is over.
"""

import re
import resource
import select
import socket
import sys
import time
from typing import Any

import msgspec

MARK = b"\ndata: {"  # once in every event, and in `end`
UNHEARD = 100  # clients without a first word while more are connected: more would overrun a server that accepts slowly
_WRITTEN = re.compile(rb"id: [0-9]+-([0-9]{16})[0-9]*\n")  # an event's id ends with the store's time in µs


class Listeners:
    """Connections to one port, spread evenly over some paths."""

    def __init__(self, port: int, paths: list[str]) -> None:
        self._port = port
        self._paths = paths
        self._poll = select.epoll()
        self._links: dict[int, socket.socket] = {}
        self._rests: dict[int, bytes] = {}
        self._heard: set[int] = set()
        self.count()

    def more(self, clients: int, seconds: float) -> dict[str, Any]:
        begun = time.monotonic()
        end = begun + seconds
        for _ in range(clients):
            while len(self._links) - len(self._heard) > UNHEARD and time.monotonic() < end:
                self._listen()
            if time.monotonic() >= end:
                break
            link = socket.create_connection(("127.0.0.1", self._port))
            path = self._paths[len(self._links) % len(self._paths)]
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            self._links[link.fileno()] = link
            self._rests[link.fileno()] = b""
            self._poll.register(link.fileno(), select.EPOLLIN)
        while len(self._heard) < len(self._links) and time.monotonic() < end:
            self._listen()
        return {"connected": len(self._heard), "seconds": time.monotonic() - begun}

    def count(self) -> dict[str, Any]:
        self._deliveries = 0
        self._delays_ms: list[float] = []
        self._first = self._last = 0.0
        return {}

    def stop(self, expected: int, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while self._deliveries < expected and time.monotonic() < end:
            self._listen()
        delays = sorted(self._delays_ms) or [0.0]
        return {
            "deliveries": self._deliveries,
            "seconds": max(self._last - self._first, 0.001),
            "p50_ms": delays[len(delays) // 2],
            "p99_ms": delays[len(delays) * 99 // 100],
            "most_ms": delays[-1],
        }

    def run(self) -> None:
        """Obey until stdin is closed."""
        self._poll.register(0, select.EPOLLIN)
        while True:
            if self._listen():
                line = sys.stdin.readline()
                if not line:
                    return
                word, *numbers = line.split()
                answer = getattr(self, word)(*map(int, numbers))
                sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
                sys.stdout.flush()

    def _listen(self) -> bool:
        """Hear what there is; True when there is a word on stdin."""
        ready = [descriptor for descriptor, _ in self._poll.poll(0.1, 512)]
        for descriptor in ready:
            if descriptor:
                self._hear(descriptor)
        return 0 in ready

    def _hear(self, descriptor: int) -> None:
        try:
            data = self._links[descriptor].recv(262_144)
        except ConnectionError:
            data = b""
        now = time.time()
        if not data:
            self._poll.unregister(descriptor)
            return
        rest = self._rests[descriptor]
        events = (rest + data).count(MARK)  # the rest is too short to hold a whole mark
        self._rests[descriptor] = data[-len(MARK) + 1 :]
        if not events:
            return
        self._heard.add(descriptor)
        self._deliveries += events
        self._first = self._first or now
        self._last = now
        if written := _WRITTEN.search(data):
            self._delays_ms.append(now * 1000 - int(written[1]) / 1000)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Listeners(int(sys.argv[1]), sys.argv[2].split(",")).run()


if __name__ == "__main__":
    main()
