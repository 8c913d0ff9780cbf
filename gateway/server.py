"""The HTTP server: uvicorn, which ends its streams first when it is asked to end."""

import asyncio
import gc
import os
import socket
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any

import httptools
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tailrace.gateway.access.limits import RETRY_SECONDS, Caps, Patience
from tailrace.gateway.access.origins import Strangers, is_host
from tailrace.gateway.live.outlets import CONNECTION
from tailrace.gateway.problems import Code, problem
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.process.logs import get_logger

HEAD_BYTES = 16 * 1024  # of a request's first line and headers together
FRAMING_BYTES = 8 * 1024 * 1024  # of all that is not its body: a megabyte in chunks of one byte has six of them
NOT_HTTP = f"this is not an HTTP/1.1 request for a path, with one Host and at most {HEAD_BYTES} bytes of headers"
UNSENT_BYTES = 128 * 1024  # that the kernel takes for a client and cannot send yet; without a limit it takes megabytes
TOO_SLOW = "the request did not arrive in time"
BEAT_SECONDS = 1.0  # between two signs of life to the parent

SECURITY_HEADERS = (  # of every answer
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"X-Frame-Options", b"DENY"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),  # for those that are not asked for by CORS
)

CROWDED = problem(
    Code.TOO_MANY_CONNECTIONS,
    "this gateway has reached its limit of connections",
    {"Retry-After": str(RETRY_SECONDS), "Connection": "close"},
)

log = get_logger()


class Connection(HttpToolsProtocol):
    """One client's connection. A stream writes to it and drops it directly, which plain ASGI cannot express."""

    def __init__(self, *args: Any, caps: Caps, strangers: Strangers | None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._front = self.app
        self._caps = caps
        self._strangers = strangers
        self._patience = Patience()
        self._body_bytes = 0  # of all requests
        self._offered = False  # the head that was just parsed offers another protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > 2 * self._caps.connections:  # up to here, a refusal is sent
            transport.abort()
        self.app_state = {**self.app_state, CONNECTION: self}  # every request of it gets a copy
        self._head_bytes = 0  # what came since the last head was complete, as far as it may belong to the next
        self._framing_bytes = 0  # what came of this request and is not its body

    def data_received(self, data: bytes) -> None:
        """The parser takes heads and trailers of any size, and keeps what it has of them: they are bounded here."""
        self._head_bytes += len(data)
        self._framing_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        if self._framing_bytes > FRAMING_BYTES and not self.transport.is_closing():
            self.send_400_response("")
            return
        if self.scope is None or "method" in self.scope:  # no head is under way
            self._head_bytes = 0
        elif self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def _parse(self, data: bytes) -> None:
        """Go on in HTTP/1.1 when a client offers another protocol, as RFC 9110, section 7.8 allows.

        The parser ends at such a head: it skips the body, and reads the bytes after it as another request. So a new
        parser gets the same head without the offer, and then the rest.
        """
        try:
            self.parser.feed_data(data)
            return
        except httptools.HttpParserUpgrade as upgrade:
            rest = memoryview(data)[upgrade.args[0] :]
        while True:
            line = (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
            fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
            self._offered = False
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
            self.parser.feed_data(b"%b %b HTTP/%b\r\n%b\r\n" % (*line, b"".join(fields)))
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]

    def on_message_begin(self) -> None:
        self._framing_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.scope is None or "method" not in self.scope:  # else a trailer, which no handler reads
            super().on_header(name, value)

    def on_message_complete(self) -> None:
        if not self._offered:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Refuse what the parser lets through: a head too large that came in one piece, and not exactly one host."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is not a proxy")
            self._offered = True  # `_parse` brings the same head again
            return
        hosts, host = 0, b""
        for name, value in self.headers:
            if name == b"host":
                hosts, host = hosts + 1, value
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            raise ValueError("not exactly one host")
        if not is_host(host):
            raise ValueError("no host at all")
        if self._head_bytes > HEAD_BYTES:  # at most as much; usually a body is part of it
            fields = sum(len(name) + len(value) for name, value in self.headers)
            if fields + len(self.url) > HEAD_BYTES:
                raise ValueError("too large a head")
        self.app = self._front
        if len(self.connections) > self._caps.connections and self.url != b"/healthz":
            self.app = CROWDED
        elif self._strangers and (refusal := self._strangers.refusal(host, self.parser.get_method(), self.headers)):
            self.app = refusal
        super().on_headers_complete()

    def look(self, now: float) -> None:
        """Drop a client that is too slow: with the rest of a request, or with reading an answer."""
        try:
            unread = self.transport.get_write_buffer_size()
        except RuntimeError:  # how uvloop says that it is gone already: `connection_lost` follows
            return
        if self._patience.reads_too_slowly(now, unread, self._caps.read_seconds):
            self.transport.abort()
            return
        cycle = self.cycle
        answered = cycle is None or cycle.response_complete
        if unread or self.transport.is_closing() or not (answered or cycle.more_body):
            self._patience.sends_nothing()
            return
        body = 0 if answered else self._body_bytes  # bytes that arrive after its answer do not count
        if self._patience.sends_too_slowly(now, (cycle, answered), body, self._caps.send_seconds):
            self._hang_up(problem(Code.TOO_SLOW, TOO_SLOW, {"Connection": "close"}))

    def send_400_response(self, msg: str) -> None:
        """Bytes that are not HTTP get a problem too. It is never mixed into the answer to an earlier request."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if answering and not cycle.response_started and not cycle.more_body:  # a whole request: answer it, and no more
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        self._hang_up(problem(Code.MALFORMED, NOT_HTTP, {"Connection": "close"}))

    def _hang_up(self, answer: Response) -> None:
        """Send the reason, unless another answer is under way, and close."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if not self.pipeline and not (answering and cycle.response_started):
            headers = [*SECURITY_HEADERS, *answer.raw_headers]
            head = b"".join(b"%b: %b\r\n" % header for header in headers)
            status = HTTPStatus(answer.status_code)
            line = b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode())
            self.transport.write(line + b"%b\r\n%b" % (head, bytes(answer.body)))
        if answering:
            cycle.disconnected = True  # what the handler still sends is dropped
        self.transport.close()


class Server(uvicorn.Server):
    """Ends its streams first, so that their clients resume elsewhere, and then counts as ended well."""

    def __init__(self, app: Starlette, settings: GatewaySettings, pulse: int | None = None) -> None:
        """`pulse`: the end of a pipe where a parent listens for signs of life."""
        # The library would cut streams off within half a second of a signal; ours end with a frame of ours.
        AppStatus.enable_automatic_graceful_drain = False
        strangers = None if settings.keys else Strangers(settings.origins)
        super().__init__(
            uvicorn.Config(
                app.state.front,
                http=partial(Connection, caps=settings.caps, strangers=strangers),  # type: ignore[arg-type] # as good
                headers=[(name.decode(), value.decode()) for name, value in SECURITY_HEADERS],
                ws="none",
                loop="uvloop",
                lifespan="on",
                log_config=None,
                log_level="error",  # it logs a line for each malformed request, and an attacker may send many
                access_log=False,  # it would log query strings
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=settings.grace_seconds,  # type: ignore[arg-type] # seconds, whole or not
            )
        )
        self._app = app
        self._pulse = pulse
        self.broken = False  # it ended by an error

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks for an end, a second one for a quick end; neither is raised again, so the exit code is 0."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._pulse is not None:
            self._beat(self._pulse)
        await super().startup(sockets)
        log.info("gateway_started", url=" ".join(map(url_of, sockets or [])))

    def _beat(self, pulse: int) -> None:
        """Send signs of life while the loop runs: `on_tick` does not run at the start and while we drain."""
        with suppress(OSError):  # full, while the parent is frozen
            os.write(pulse, b".")
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat, pulse)

    async def main_loop(self) -> None:
        """Whatever fails here, the port is freed and the process ends, so that another can be started."""
        try:
            await super().main_loop()
        except Exception:
            self.broken = True
            log.exception("gateway_broken")

    async def on_tick(self, counter: int) -> bool:
        """uvicorn calls it ten times a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.look(now)  # type: ignore[union-attr] # all of them are ours
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.live.close()
        await super().shutdown(sockets)
        if self.force_exit:  # a second signal: uvicorn stops waiting and leaves this out too
            await self.lifespan.shutdown()


def collect_seldom() -> None:
    """Keep the garbage collector from holding the loop.

    All that was imported stays, so it need not be looked at again. By default, every 700 new objects are looked at, and
    every quarter more of the old ones all of them: hundreds of times for one body with many parts.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # a look at this many takes some 4 ms


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to a free address, not listening yet. Raises OSError when the address is taken."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return bound(socket.socket(family, kind, protocol), address)


def hold(found: socket.socket) -> socket.socket:
    """Keep an address for our child processes, also while none listens there. Raises OSError when it is taken.

    Several parents may bind it at the same moment, but only one can listen. From then on the kernel refuses every
    socket that does not share the port, and another parent does not share it before it has come through here.
    """
    with found:  # a port that the kernel chose would be given back by the shutdown: bind it by its number
        holder = bound(socket.socket(found.family, found.type, found.proto), found.getsockname())
    try:
        holder.listen(0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.shutdown(socket.SHUT_RDWR)  # it stays bound, and gets no connections
    except OSError:
        holder.close()
        raise
    return holder


def bind_beside(holder: socket.socket) -> socket.socket:
    """Bind another socket to the same address: the kernel shares out new connections among those that listen there."""
    listener = socket.socket(holder.family, holder.type, holder.proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return bound(listener, holder.getsockname())


def bound(listener: socket.socket, address: Any) -> socket.socket:
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
