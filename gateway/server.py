"""The HTTP server: uvicorn, told when to let go of its streams and how to end."""

import asyncio
import socket
from types import FrameType

import h11
import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.replies import problem
from gateway.settings import GatewaySettings

log = structlog.get_logger()


class Connection(H11Protocol):
    """One client's connection; a request may drop it whole, which plain ASGI cannot express."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}  # every request of it gets a copy

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP at all is a problem too, as long as no answer is under way."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem(400, "MALFORMED", msg, {"Connection": "close"})
            for event in (
                h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request"),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """Ends its streams first, so that their clients resume elsewhere, and then counts as ended well."""

    def __init__(self, app: Starlette, settings: GatewaySettings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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
