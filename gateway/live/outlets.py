"""How a stream writes: straight to a connection of our own server, or through the `send` of any ASGI server."""

import asyncio
from typing import Final, Protocol

import anyio
from starlette.types import Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl

SHARED_BYTES = 4096  # larger chunks are not copied: thousands of slow clients hold the same bytes
END_SECONDS = 15.0  # for a slow client to read the last events
CONNECTION: Final = "tailrace.connection"  # where the state of a request's scope holds its connection


class StreamConnection(Protocol):
    """The part of a connection of our own server that a stream uses."""

    transport: asyncio.Transport
    flow: FlowControl


class Outlet(Protocol):
    """Writes a stream to one client, once the head of its answer is sent."""

    @property
    def full(self) -> bool:
        """Whether the client has not read yet what it was sent: `drain` returns when it has."""

    @property
    def closed(self) -> bool: ...
    def write(self, part: bytes) -> None: ...
    async def drain(self) -> None: ...
    async def end(self) -> None: ...
    def cut(self) -> None:
        """Drop the client with all that is unsent: a client that does not read cannot be closed politely."""


def connection_of(scope: Scope) -> StreamConnection | None:
    """The connection of a request; None: another server serves it."""
    found: StreamConnection | None = scope.get("state", {}).get(CONNECTION)
    return found


def outlet_of(scope: Scope, send: Send) -> Outlet:
    connection = connection_of(scope)
    return AsgiOutlet(send) if connection is None else DirectOutlet(connection, send)


class DirectOutlet:
    """Writes to the transport, past the layers of the application, which costs a third of their `send`."""

    def __init__(self, connection: StreamConnection, send: Send) -> None:
        self._transport, self._flow, self._send = connection.transport, connection.flow, send

    @property
    def full(self) -> bool:
        return self._flow.write_paused

    @property
    def closed(self) -> bool:
        return self._transport.is_closing()

    def write(self, part: bytes) -> None:
        """Send a chunk, as uvicorn's head announced."""
        if len(part) < SHARED_BYTES:
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            self._transport.writelines((b"%x\r\n" % len(part), part, b"\r\n"))

    async def drain(self) -> None:
        await self._flow.drain()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    def cut(self) -> None:
        self._transport.abort()


class AsgiOutlet:
    """Keeps what is written until `drain` passes it on. A server that is not ours holds that up for a slow client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._unsent: list[bytes] = []
        self._sending: anyio.CancelScope | None = None
        self.closed = False

    @property
    def full(self) -> bool:
        return bool(self._unsent)

    def write(self, part: bytes) -> None:
        self._unsent.append(part)

    async def drain(self) -> None:
        with anyio.CancelScope() as self._sending:
            while self._unsent and not self.closed:
                await self._send({"type": "http.response.body", "body": self._unsent[0], "more_body": True})
                del self._unsent[:1]

    async def end(self) -> None:
        with anyio.move_on_after(END_SECONDS):
            await self.drain()
            if not self.closed:
                await self._send({"type": "http.response.body", "body": b""})

    def cut(self) -> None:
        self.closed = True
        if self._sending:
            self._sending.cancel()
