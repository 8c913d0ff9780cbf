"""One stream of many jobs: every event from `started` on, as it happens, of all platforms or of some.

It tells what happens now. A client that comes back after it was away, or was cut off because it read too slowly, gets
`reset`: it may have missed events, and the histories of its jobs have them.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from tailrace.gateway.live.frames import (
    PING,
    RESET,
    STREAM_ID,
    JobFrame,
    farewell,
    greeting,
    store_away,
)
from tailrace.gateway.live.live import Live
from tailrace.gateway.live.outlets import StreamConnection, connection_of

MOST_BYTES = 1024 * 1024  # that a client may have unread
SEND_BYTES = 64 * 1024  # of one send: these are copied, so a slow client may not hold more of them
FAREWELL_SECONDS = 2.0  # on a server that is not ours: the library waits for our last frame before it cuts streams off
FEED_SECONDS = 1.0  # to wait until the feed is read, for the first client


class AllJobsStream(EventSourceResponse):
    """The answer to one client: the library sends pings and notices when the client leaves.

    The task of the feed adds frames, which all clients share; the task of the client sends them.
    """

    def __init__(
        self, live: Live, platforms: frozenset[str], jobs: frozenset[str] | None, ping_seconds: float, *, missed: bool
    ) -> None:
        """`jobs`: only these; None: all jobs of the platforms. `missed`: the client may have missed events."""
        super().__init__(
            self._frames(), ping=ping_seconds, ping_message_factory=ping, shutdown_grace_period=FAREWELL_SECONDS
        )
        del self.headers["connection"]  # uvicorn decides whether the connection stays open
        self._live = live
        self._platforms = platforms
        self._jobs = jobs
        self._missed = missed
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._news = asyncio.Event()
        self._connection: StreamConnection | None = None
        self._lifetime = anyio.CancelScope()
        self._sending = False
        self._over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        self._connection = connection_of(scope)
        with self._live.telling(self), self._lifetime:
            with anyio.move_on_after(FEED_SECONDS):
                await self._live.heard.wait()
            # A client that has the head may act at once and expects the events of that, but none before it.
            self._unsent, self._unsent_bytes = [], 0
            self._live.counters.clients += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                self._live.counters.clients -= 1

    async def _frames(self) -> AsyncIterator[bytes]:
        if not self._live.heard.on_any(self._platforms):
            yield STREAM_ID + (farewell() if self._live.closing else store_away())
            return
        yield STREAM_ID + greeting() + (RESET if self._missed else b"")
        while not self._live.closing:
            if frames := self.take():
                self._sending = True
                yield frames
                self._sending = False
            else:
                await self._news.wait()
        yield farewell()

    def wants(self, platform: str) -> bool:
        return platform in self._platforms

    def hear(self, frames: Sequence[JobFrame]) -> None:
        jobs = self._jobs
        if wanted := [frame for job_id, frame in frames if jobs is None or job_id in jobs]:
            self._add(wanted)

    def doubt(self) -> None:
        self._add([RESET])

    def _add(self, frames: list[bytes]) -> None:
        if self._over:
            return
        self._unsent += frames
        self._unsent_bytes += sum(map(len, frames))
        if self._unsent_bytes > MOST_BYTES:
            self._cut()
        self._news.set()

    def take(self) -> bytes:
        """The next frames, as many as fit into one send."""
        self._news.clear()
        stop, size = len(self._unsent), self._unsent_bytes
        while size > SEND_BYTES and stop > 1:
            stop -= 1
            size -= len(self._unsent[stop])
        frames = b"".join(self._unsent[:stop])
        self._live.counters.events_sent += stop
        del self._unsent[:stop]
        self._unsent_bytes -= size
        return frames

    def close(self) -> None:
        """Have the client's task send the last frame, unless it waits for a client that does not read."""
        if self._connection.flow.write_paused if self._connection else self._sending:
            self._cut()
        self._news.set()

    def _cut(self) -> None:
        """Drop the connection and all that is unsent."""
        self._over = True
        self._unsent, self._unsent_bytes = [], 0
        if self._connection:
            self._connection.transport.abort()
        else:
            self._lifetime.cancel()


def ping() -> ServerSentEvent:
    return PING  # type: ignore[return-value] # the library passes bytes on as they are
