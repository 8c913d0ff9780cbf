"""Many live clients in a process of their own: `listeners.py PORT PATHS CLIENTS`, each as cheap as can be.

They say `ready` when each has heard something. From then on they count what reaches them and how late it comes,
until the line `stop` is on stdin and all is quiet.
"""

import re
import resource
import select
import socket
import sys
import time

import msgspec

MARK = b"\ndata: {"  # once in every event, and in `end`
_WRITTEN = re.compile(rb"id: [0-9]+-([0-9]{16})[0-9]*\n")  # an event's id ends with the store's time in µs


class Listeners:
    """`clients` connections to `port`, spread evenly over `paths`."""

    def __init__(self, port: int, paths: list[str], clients: int) -> None:
        self._poll = select.epoll()
        self._links: dict[int, socket.socket] = {}
        self._rests: dict[int, bytes] = {}
        self._first_word: set[int] = set()
        self._start_to_count()
        for number in range(clients):
            link = socket.create_connection(("127.0.0.1", port))
            link.sendall(f"GET {paths[number % len(paths)]} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            self._links[link.fileno()] = link
            self._rests[link.fileno()] = b""
            self._poll.register(link.fileno(), select.EPOLLIN)
            while len(self._links) - len(self._first_word) > 100:  # do not overrun a server that accepts slowly
                self._listen()
        while len(self._first_word) < clients:
            self._listen()

    def _start_to_count(self) -> None:
        self.deliveries = 0
        self.delays_ms: list[float] = []
        self.first = self.last = 0.0

    def _listen(self) -> bool:
        heard = [descriptor for descriptor, _ in self._poll.poll(0.5, 512) if descriptor]
        for descriptor in heard:
            self._hear(descriptor)
        return bool(heard)

    def to_the_end(self) -> None:
        """Count from now until the word `stop`, and then until nothing more comes."""
        self._start_to_count()
        self._poll.register(0, select.EPOLLIN)
        while not select.select([0], [], [], 0)[0]:
            self._listen()
        self._poll.unregister(0)
        while self._listen():
            pass

    def _hear(self, descriptor: int) -> None:
        data = self._links[descriptor].recv(262_144)
        now = time.time()
        if not data:
            self._poll.unregister(descriptor)
            return
        rest = self._rests[descriptor]
        events = (rest + data).count(MARK)  # the rest is too short to hold a whole mark
        self._rests[descriptor] = data[-len(MARK) + 1 :]
        if not events:
            return
        self._first_word.add(descriptor)
        self.deliveries += events
        self.first = self.first or now
        self.last = now
        if written := _WRITTEN.search(data):
            self.delays_ms.append(now * 1000 - int(written[1]) / 1000)


def main() -> None:
    port, paths, clients = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listeners = Listeners(port, paths, clients)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    listeners.to_the_end()
    delays = sorted(listeners.delays_ms) or [0.0]
    figures = {
        "deliveries": listeners.deliveries,
        "seconds": max(listeners.last - listeners.first, 0.001),
        "p50_ms": delays[len(delays) // 2],
        "p99_ms": delays[len(delays) * 99 // 100],
        "most_ms": delays[-1],
    }
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")


if __name__ == "__main__":
    main()
