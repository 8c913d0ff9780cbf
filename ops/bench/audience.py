"""Many live clients of one job, in this process: they count what reaches them and how late it comes."""

import asyncio
import re
import time
from types import TracebackType
from typing import Self, cast

from tailrace.streams.errors import TailraceError

FRAME = b"\nid: "
END = b"\nevent: end\n"
_REPORTED = re.compile(rb'"data":(\d+)[,}]')  # when the handler reported it, in ns of the machine's monotonic clock


class LiveClients:
    """`async with Audience(…):` everybody is there and has heard that the job waits; from here on it counts."""

    def __init__(self, address: tuple[str, int], job_id: str, clients: int) -> None:
        self._address = address
        self._request = f"GET /research/stream/{job_id} HTTP/1.1\r\nHost: {address[0]}\r\n\r\n".encode()
        self._clients = clients
        self._listeners: list[LiveClient] = []
        self._all_here = asyncio.Event()
        self._all_told = asyncio.Event()
        self._here = self._told = 0
        self._trouble = ""
        self._start_to_count()

    def _start_to_count(self) -> None:
        self.deliveries = 0
        self.delays_ms: list[float] = []  # of what came in one piece, the oldest event's
        self.first = self.last = 0  # when something came, in ns

    @property
    def seconds(self) -> float:
        """From the first delivery to the last."""
        return max(self.last - self.first, 1) / 1e9

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            for _ in range(self._clients):
                _, listener = await loop.create_connection(lambda: LiveClient(self, self._request), *self._address)
                self._listeners.append(listener)
            await self._wait(self._all_here)
        except OSError as error:
            self._leave()
            raise TailraceError(f"live client {len(self._listeners) + 1} cannot connect: {error.strerror}") from None
        except BaseException:
            self._leave()
            raise
        self._start_to_count()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    async def to_the_end(self) -> None:
        """Wait until every client was told that the job has ended."""
        await self._wait(self._all_told)

    async def _wait(self, event: asyncio.Event) -> None:
        await event.wait()
        if self._trouble:
            raise TailraceError(f"a live client: {self._trouble}")

    def _leave(self) -> None:
        for listener in self._listeners:
            listener.close()

    def came(self) -> None:
        self._here += 1
        if self._here == self._clients:
            self._all_here.set()

    def heard(self, data: bytes, events: int) -> None:
        now = time.monotonic_ns()
        self.first = self.first or now
        self.last = now
        self.deliveries += events
        if reported := _REPORTED.search(data):
            self.delays_ms.append((now - int(reported[1])) / 1e6)

    def was_told(self) -> None:
        self._told += 1
        if self._told == self._clients:
            self._all_told.set()

    def lost(self, trouble: str) -> None:
        self._trouble = trouble
        self._all_here.set()
        self._all_told.set()


class LiveClient(asyncio.Protocol):
    """One client: as little work as possible, because all of them share a processor with what is measured.

    It counts frames and does not parse them: `gateway.client.event_stream` takes 2.4 times as long for an event that
    comes alone and 7.6 times as long for each of fifty, and the figures would tell of the clients.
    """

    def __init__(self, audience: LiveClients, request: bytes) -> None:
        self._audience = audience
        self._request = request
        self._transport: asyncio.Transport | None = None
        self._rest = b""  # the end of the last piece: what we look for may be cut in two
        self._here = self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._rest and not data.startswith(b"HTTP/1.1 200 "):
            self._audience.lost(f"the gateway answered {data[:40]!r}")
            return
        whole = self._rest + data
        events = whole.count(FRAME) - self._rest.count(FRAME)
        self._rest = whole[-len(END) :]
        if events:
            self._audience.heard(whole, events)
            if not self._here:
                self._here = True
                self._audience.came()
        if END in whole and not self._told:
            self._told = True
            self._audience.was_told()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._told:
            self._audience.lost(f"the gateway closed the stream{f': {error}' if error else ''}")

    def close(self) -> None:
        self._told = True
        if self._transport:
            self._transport.abort()
