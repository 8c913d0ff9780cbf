"""A link to the store that can be broken: cut, a black hole, a lost reply, a delay, slowness, a failover."""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self
from urllib.parse import unquote, urlsplit

CHUNK = 1 << 16
SLICES = 20  # a second, on a slow link
NARROW = 1 << 14  # bytes that the kernel holds for us: a client must notice that we are slow to read


class Wire:
    """One connection through the link."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.torn: set[str] = set()  # ways on which bytes were swallowed: a stream with a hole never works again
        self.deaf = False  # the next reply will not arrive

    def close(self) -> None:
        self.client.close()
        self.server.close()


class Link:
    """A TCP proxy between one consumer and the store: `async with Link(url) as link: … link.url …`."""

    def __init__(self, url: str) -> None:
        self.delay_seconds = 0.0  # each way
        self.bytes_per_second = 0  # each way; 0: no limit
        self.opened = 0  # connections so far
        self.dropped = asyncio.Event()  # set when the reply that was to be lost is lost
        self._address = urlsplit(url)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._wires: set[Wire] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._swallow_requests = self._swallow_replies = False
        self._marked_request = self._marked_reply = b""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        if self._server:
            self._server.close()
            self._server = None
        for wire in list(self._wires):
            wire.close()

    def swallow(self, *, requests: bool = True, replies: bool = True) -> None:
        """A black hole: connections stay open, and what is sent on them never arrives."""
        self._swallow_requests, self._swallow_replies = requests, replies

    async def heal(self) -> None:
        """New connections work again. One that lost bytes stays silent for ever: its client must give it up."""
        self._swallow_requests = self._swallow_replies = False
        if not self._server:
            await self._open()

    def lead_to(self, url: str) -> None:
        """New connections go to another server; those that are open stay where they are, as after a failover."""
        self._address = urlsplit(url)

    def say(self, words: bytes) -> None:
        """Have the server say this on every connection, whether it was asked or not."""
        for wire in self._wires:
            wire.client.write(words)

    def drop_reply(self, *, to: bytes = b"", holding: bytes = b"") -> None:
        """Let the store carry out the next request that contains `to`, or whose reply is `holding` this, then cut that
        connection instead of passing on the reply."""
        self._marked_request, self._marked_reply = to, holding
        self.dropped.clear()

    async def _open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
        listener.bind(("127.0.0.1", self._port))
        self._server = await asyncio.start_server(self._join, sock=listener, limit=NARROW)
        self._port = listener.getsockname()[1]

    async def _join(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            if self._address.scheme == "unix":
                replies, server = await asyncio.open_unix_connection(unquote(self._address.path))
            else:
                replies, server = await asyncio.open_connection(self._address.hostname, self._address.port)
        except OSError:  # the store itself is away
            client.close()
            return
        wire = Wire(client, server)
        self._wires.add(wire)
        self.opened += 1
        for pump in (self._requests(reader, wire), self._replies(replies, wire)):
            task = asyncio.get_running_loop().create_task(self._until_closed(pump, wire))
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _until_closed(self, pump: Coroutine[Any, Any, None], wire: Wire) -> None:
        try:
            with suppress(OSError, RuntimeError):  # uvloop raises the latter on a connection that is gone
                await pump
        finally:
            wire.close()
            self._wires.discard(wire)

    async def _next(self, reader: asyncio.StreamReader) -> bytes:
        """What comes next, as late and as slowly as this link carries it."""
        if not (rate := self.bytes_per_second):
            chunk = await reader.read(CHUNK)
            await asyncio.sleep(self.delay_seconds)
            return chunk
        chunk = await reader.read(max(1, rate // SLICES))
        await asyncio.sleep(self.delay_seconds + len(chunk) / rate)
        return chunk

    async def _requests(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        while chunk := await self._next(reader):
            if self._swallow_requests or "requests" in wire.torn:
                wire.torn.add("requests")
                continue
            if self._marked_request and self._marked_request in chunk:
                self._marked_request = b""
                wire.deaf = True
            wire.server.write(chunk)
            await wire.server.drain()

    async def _replies(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        while chunk := await self._next(reader):
            if self._swallow_replies or wire.torn:
                wire.torn.add("replies")
                continue
            if wire.deaf or (self._marked_reply and self._marked_reply in chunk):
                self._marked_reply = b""
                self.dropped.set()
                return
            wire.client.write(chunk)
            await wire.client.drain()
