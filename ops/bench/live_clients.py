"""Many live clients of one job, in this process: they count what reaches them and how late it comes."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from tailrace.streams.errors import TailraceError

FRAME = b"\nid: "
END = b"\nevent: end\n"
_REPORTED = re.compile(rb'"data":(\d+)[,}]')  # when the handler reported it, in ns of the machine's monotonic clock


class Deliveries:
    """Counts of the events that have reached the clients."""

    def __init__(self) -> None:
        self.count = 0
        self.delays_ms: list[float] = []  # of what came in one piece, the oldest event's
        self._first = self._last = 0  # when something came, in ns

    @property
    def seconds(self) -> float:
        """The time from the first delivery to the last."""
        return max(self._last - self._first, 1) / 1e9

    def add(self, data: bytes, events: int) -> None:
        now = time.monotonic_ns()
        self._first = self._first or now
        self._last = now
        self.count += events
        if reported := _REPORTED.search(data):
            self.delays_ms.append((now - int(reported[1])) / 1e6)


class LiveClient(asyncio.Protocol):
    """One client: as little work as possible, because all of them share a processor with what is measured.

    It counts frames and does not parse them: `gateway.client.event_stream` takes 2.4 times as long for an event that
    comes alone and 7.6 times as long for each of fifty, and the figures would tell of the clients.
    """

    def __init__(self, job_id: str, host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        self.deliveries = Deliveries()
        self.here: asyncio.Future[None] = loop.create_future()  # it has heard that the job waits
        self.ended: asyncio.Future[None] = loop.create_future()  # the end of the job has reached it
        self._request = f"GET /research/stream/{job_id} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        self._transport: asyncio.Transport | None = None
        self._rest = b""  # the end of the last piece: what we look for may be cut in two

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._rest and not data.startswith(b"HTTP/1.1 200 "):
            self._fail(f"the gateway answered {data[:40]!r}")
            return
        whole = self._rest + data
        events = whole.count(FRAME) - self._rest.count(FRAME)
        self._rest = whole[-len(END) :]
        if events:
            self.deliveries.add(whole, events)
            if not self.here.done():
                self.here.set_result(None)
        if END in whole and not self.ended.done():
            self.ended.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the gateway closed the stream{f': {error}' if error else ''}")

    def _fail(self, trouble: str) -> None:
        for waited_for in (self.here, self.ended):
            if not waited_for.done():
                waited_for.set_exception(TailraceError(f"a live client: {trouble}"))
                waited_for.exception()  # perhaps nothing waits for this client

    def close(self) -> None:
        self.here.cancel()
        self.ended.cancel()
        if self._transport:
            self._transport.abort()


class LiveClients:
    """The clients of one job. All of them count into the same deliveries."""

    def __init__(self, clients: Sequence[LiveClient]) -> None:
        self._clients = clients
        self.deliveries = Deliveries()
        for client in clients:
            client.deliveries = self.deliveries

    async def to_the_end(self) -> None:
        """Wait until the end of the job has reached every client."""
        await asyncio.gather(*(client.ended for client in self._clients))


@asynccontextmanager
async def open_clients(address: tuple[str, int], job_id: str, count: int) -> AsyncIterator[LiveClients]:
    """Live clients, each connected and told that the job waits. From here on they count."""
    clients: list[LiveClient] = []
    loop = asyncio.get_running_loop()
    try:
        for _ in range(count):
            clients.append(LiveClient(job_id, address[0]))
            try:
                await loop.create_connection(lambda: clients[-1], *address)
            except OSError as error:
                raise TailraceError(f"live client {len(clients)} cannot connect: {error.strerror}") from None
        await asyncio.gather(*(client.here for client in clients))
        yield LiveClients(clients)
    finally:
        for client in clients:
            client.close()
