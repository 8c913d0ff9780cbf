"""A gateway inside another application: `tailrace.gateway.app(...)`, to be mounted under any path, on any ASGI server.

A framework does not run the lifespan of an application that is mounted in it. So the gateway starts with its first
request, in a task of the running loop, unless the host enters `lifespan` itself.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from tailrace.gateway.access.origins import Strangers
from tailrace.gateway.application import create_app
from tailrace.gateway.live.outlets import CONNECTION
from tailrace.gateway.problems import Code, problem
from tailrace.gateway.replies import MOUNTED_AT
from tailrace.gateway.server import SECURITY_HEADERS
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers.client import find_store
from tailrace.streams.errors import NoStore
from tailrace.streams.process.data_folder import DEFAULT_DATA
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.settings import Environment

LOOK_SECONDS = 0.25  # between two looks whether the server was asked to end

FAR: Final = problem(
    Code.KEYS_NEEDED,
    "without API keys this gateway serves its own machine only: set TAILRACE_API_KEYS, or, when your application "
    "checks its callers before they come here, mount tailrace.gateway.app(trust_callers=True)",
)

log = get_logger()


class StartedGateway(NamedTuple):
    """A gateway that has started, on one event loop."""

    loop: asyncio.AbstractEventLoop
    front: ASGIApp


class EmbeddedGateway(Starlette):
    """The gateway as an application for `mount`.

        jobs = tailrace.gateway.app()
        app = FastAPI(lifespan=jobs.lifespan)
        app.mount("/jobs", jobs)

    In a lifespan of your own, enter it with `async with jobs.lifespan(app)`. Without it, the gateway starts with its
    first request, and ends with the event loop.
    """

    def __init__(self, url: str | None, data: Path, settings: GatewaySettings, *, trust_callers: bool) -> None:
        super().__init__(lifespan=self.lifespan)
        self._url = url
        self._data = data
        self._settings = settings
        is_open = bool(settings.keys) or trust_callers
        self._strangers = None if is_open else Strangers(settings.origins)
        self._running: StartedGateway | None = None
        self._starting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Serve for as long as this is entered. Raises `NoStore` when no store is known."""
        url, streams = find_store(self._url, self._data)
        app = create_app(replace(self._settings, streams=replace(streams, url=url)))
        loop = asyncio.get_running_loop()
        async with app.router.lifespan_context(app):
            watcher = loop.create_task(end_with_server(app))
            self._running = StartedGateway(loop, app.state.front)
            try:
                yield
            finally:
                self._running = None
                watcher.cancel()
                app.state.live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        mounted_at, path = parted(scope)
        state = {name: value for name, value in scope.get("state", {}).items() if name != CONNECTION}
        inner = {**scope, "root_path": "", "app_root_path": "", "path": path, "path_params": {}, "state": state}
        is_http_1 = scope.get("http_version", "1.1") in ("1.0", "1.1")

        async def sealed(message: Message) -> None:
            """The answer with the headers of our own server; HTTP/2 and 3 have no header `Connection`."""
            if message["type"] == "http.response.start":
                headers = [each for each in message["headers"] if is_http_1 or each[0].lower() != b"connection"]
                message = {**message, "headers": [*LOWER_CASE, *headers]}
            await send(message)

        token = MOUNTED_AT.set(quote(mounted_at))
        try:
            await (self._refusal(scope) or await self._front())(inner, receive, sealed)
        finally:
            MOUNTED_AT.reset(token)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """The refusal to answer with, or None: without keys, only callers on this machine are served."""
        if self._strangers is None:
            return None
        if is_far(scope):
            return FAR
        host = Headers(scope=scope).get("host", "").encode("latin-1")
        return self._strangers.refusal(host, scope["method"].encode(), scope["headers"])

    async def _front(self) -> ASGIApp:
        """The gateway of this loop, started if it has not been."""
        loop = asyncio.get_running_loop()
        if self._running is None or self._running.loop is not loop:
            if self._starting is None or self._starting.get_loop() is not loop or self._starting.done():
                self._starting = loop.create_task(self._start())
            try:
                await asyncio.shield(self._starting)
            except NoStore as error:
                log.error("gateway_has_no_store", reason=str(error))
                return problem(Code.STORE_AWAY, "no store is known; the log of the application says more", RETRY)
        assert self._running is not None
        return self._running.front

    async def _start(self) -> None:
        """Enter the lifespan in a task that lasts as long as the loop, and return when it serves."""
        serving = asyncio.Event()

        async def keep() -> None:
            async with self.lifespan():
                serving.set()
                await asyncio.Event().wait()

        self._keeper = asyncio.create_task(keep())
        ready = asyncio.create_task(serving.wait())
        await asyncio.wait((self._keeper, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._keeper.done():
            self._keeper.result()


RETRY: Final = {"Retry-After": "2"}
LOWER_CASE: Final = [(name.lower(), value) for name, value in SECURITY_HEADERS]  # as ASGI has it


def embed(url: str | None, *, trust_callers: bool, data: Path | str | None) -> EmbeddedGateway:
    settings = GatewaySettings.read(Environment(), host="127.0.0.1", port=0, processes=1)
    return EmbeddedGateway(url, Path(data or DEFAULT_DATA), settings, trust_callers=trust_callers)


def parted(scope: Scope) -> tuple[str, str]:
    """Split a path into the mount of the application and the path within it.

    A path begins with `root_path`, unless a proxy has taken off the part that the server knows.
    """
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    for begin in (root, root.removeprefix(scope.get("app_root_path", ""))):
        if path == begin or path.startswith(f"{begin}/"):
            return root, path[len(begin) :] or "/"
    return root, path


def is_far(scope: Scope) -> bool:
    """Whether a request comes from another machine; test clients and Unix sockets have no address."""
    host, *_ = scope.get("client") or ("",)
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


async def end_with_server(app: Starlette) -> None:
    """End the streams when uvicorn is asked to end: it waits for them before it ends the lifespan."""
    while not is_ending():  # noqa: ASYNC110 # nothing tells of it
        await asyncio.sleep(LOOK_SECONDS)
    app.state.live.close()


def is_ending() -> bool:
    """Whether the uvicorn server of this process has got its signal: its handler is a method of it."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
