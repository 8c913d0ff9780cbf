"""The HTTP server: uvicorn, told when to let go of its streams and how to end."""

import asyncio
import socket
from types import FrameType

import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.replies import problem
from gateway.settings import GatewaySettings

HEAD_BYTES = 16 * 1024  # of a request's first line and headers together
FRAMING_BYTES = 8 * 1024 * 1024  # of all that is not its body: a megabyte in chunks of one byte has six of them
NOT_HTTP = f"this is not an HTTP/1.1 request with one Host and at most {HEAD_BYTES} bytes of headers"

log = structlog.get_logger()


class Connection(HttpToolsProtocol):
    """One client's connection. A stream writes to it and drops it directly, which plain ASGI cannot express."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": self}  # every request of it gets a copy
        self._head_bytes = 0  # what came since the last head was complete, as far as it may belong to the next
        self._framing_bytes = 0  # what came of this request and is not its body

    def data_received(self, data: bytes) -> None:
        """The parser takes heads and trailers of any size, and keeps what it has of them: they are bounded here."""
        self._head_bytes += len(data)
        self._framing_bytes += len(data)
        super().data_received(data)
        if self._framing_bytes > FRAMING_BYTES and not self.transport.is_closing():
            self.send_400_response("")
            return
        if self.scope is None or "method" in self.scope:  # no head is under way
            self._head_bytes = 0
        elif self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        self._framing_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.scope is None or "method" not in self.scope:  # else a trailer: nobody here reads them
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Refuse what the parser lets through: a head too large that came in one piece, and not exactly one host."""
        hosts = 0
        for name, _ in self.headers:
            if name == b"host":
                hosts += 1
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            raise ValueError("not exactly one host")
        if self._head_bytes > HEAD_BYTES:  # at most as much; usually a body is part of it
            fields = sum(len(name) + len(value) for name, value in self.headers)
            if fields + len(self.url) > HEAD_BYTES:
                raise ValueError("too large a head")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP at all is a problem too. It never gets into the answer to what came before it."""
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if answering and not cycle.response_started and not cycle.more_body:  # a whole request: answer it, and no more
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if not self.pipeline and not (answering and cycle.response_started):
            answer = problem(400, "MALFORMED", NOT_HTTP, {"Connection": "close"})
            head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (head, bytes(answer.body)))
        if answering:
            cycle.disconnected = True  # what is still said is for nobody
        self.transport.close()


class Server(uvicorn.Server):
    """Ends its streams first, so that their clients resume elsewhere, and then counts as ended well."""

    def __init__(self, app: Starlette, settings: GatewaySettings) -> None:
        super().__init__(
            uvicorn.Config(
                app.state.history.in_front_of(app),
                http=Connection,
                ws="none",
                loop="uvloop",
                lifespan="on",
                log_config=None,
                access_log=False,  # it would log query strings
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=settings.grace_seconds,  # type: ignore[arg-type] # seconds, whole or not
            )
        )
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks for an end, a second one for a quick end; neither is raised again, so the exit code is 0."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        log.info("gateway_serves", url=" ".join(map(url_of, sockets or [])))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.live.close()
        await super().shutdown(sockets)
        if self.force_exit:  # a second signal: uvicorn waits for nobody and would forget this too
            await self.lifespan.shutdown()


def bind(host: str, port: int) -> socket.socket:
    """A listening address of our own. Raises OSError when it is taken."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
