"""One stream of many jobs: every event from `started` on, as it happens, of all platforms or of some.

It tells what happens now. A client that was away, or that reads so slowly that it is cut off, is told `reset` when it
comes back: what it shows may have a gap, and the histories of its jobs tell the rest.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tailrace.gateway.live.frames import HEADERS, PING, RESET, farewell, greeting, store_away
from tailrace.gateway.live.job_stream import StreamConnection
from tailrace.gateway.live.live import Live
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import join_id, split_id
from tailrace.streams.messages import Hint, encode
from tailrace.streams.policies import Platforms

MOST_BYTES = 1024 * 1024  # that one client may leave unread
SEND_BYTES = 64 * 1024  # of one send: these are copied, so a slow client may not hold more of them
MOST_JOBS = 1000  # that one client may name
FEED_SECONDS = 1.0  # for the feed to be read again, when nobody has watched before

# A browser comes back with the last id it was given. The events have none, so the stream itself has one.
OPENING = b"id: live\n"


class Client:
    """What one client wants to hear, and what it has not been sent yet."""

    def __init__(self, platforms: frozenset[str], jobs: frozenset[str] | None) -> None:
        self._platforms = platforms
        self._jobs = jobs
        self._unsent: list[bytes] = []  # shared with all others
        self._size = 0
        self._began = False
        self._connection: StreamConnection | None = None
        self.news = asyncio.Event()
        self.over = False

    def connect(self, connection: StreamConnection) -> None:
        self._connection = connection

    def wants(self, platform: str) -> bool:
        return platform in self._platforms

    def hear(self, job_id: str, frame: bytes) -> None:
        if self._jobs is None or job_id in self._jobs:
            self._add(frame)

    def begin(self) -> None:
        """From here on it is told of everything, or that something is missing."""
        self._began = True

    def doubt(self) -> None:
        """The feed may have been cut."""
        if self._began:
            self._add(RESET)

    def _add(self, frame: bytes) -> None:
        if self.over:
            return
        self._unsent.append(frame)
        self._size += len(frame)
        if self._size > MOST_BYTES:
            self._cut()
        self.news.set()

    def take(self) -> bytes:
        """What to send next, as far as it fits into one send."""
        self.news.clear()
        if self._size <= SEND_BYTES:
            frames, self._unsent, self._size = b"".join(self._unsent), [], 0
            return frames
        size, stop = len(self._unsent[0]), 1
        while stop < len(self._unsent) and size + len(self._unsent[stop]) <= SEND_BYTES:
            size += len(self._unsent[stop])
            stop += 1
        frames = b"".join(self._unsent[:stop])
        del self._unsent[:stop]
        self._size -= size
        return frames

    def close(self) -> None:
        """Have its own task say farewell, unless that waits for a client that does not read."""
        if self._connection and self._connection.flow.write_paused:
            self._cut()
        self.news.set()

    def leave(self) -> None:
        self.over = True
        self.news.set()

    def _cut(self) -> None:
        """Drop the connection and all that is unsent."""
        self.over = True
        self._unsent, self._size = [], 0
        if self._connection:
            self._connection.transport.abort()


class Audience:
    """All clients of such streams. An event is written down once, and shared by whoever wants to hear it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._clients: set[Client] = set()

    @contextmanager
    def holding(self, client: Client) -> Iterator[None]:
        """Tell a client of what happens for as long as this lasts."""
        self._clients.add(client)
        self._live.tell(self)
        try:
            yield
        finally:
            self._clients.discard(client)
            if not self._clients:
                self._live.leave(self)

    def wants(self, platform: str) -> bool:
        return any(client.wants(platform) for client in self._clients)

    def hear(self, platform: str, hints: Sequence[Hint]) -> None:
        clients = [client for client in self._clients if client.wants(platform)]
        for hint in hints:
            job_id = join_id(platform, hint.key)
            # Too large to travel in the feed: where it can be read.
            event = hint.event or encode({"jobId": job_id, "seq": hint.seq, "status": "large"})
            frame = b"data: %b\n\n" % event
            for client in clients:
                client.hear(job_id, frame)

    def doubt(self, platform: str | None) -> None:
        for client in self._clients:
            if platform is None or client.wants(platform):
                client.doubt()

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Everything:
    """The route of that stream."""

    def __init__(self, live: Live, platforms: Platforms, ping_seconds: float) -> None:
        self._live = live
        self._audience = Audience(live)
        self._platforms = platforms
        self._ping_seconds = ping_seconds

    async def stream(self, request: Request) -> Response:
        query = request.query_params
        platforms = frozenset(map(self._platforms.known, listed(query.get("platform"))))
        jobs = listed(query.get("jobs"))
        if len(jobs) > MOST_JOBS:
            raise WrongField("jobs", f"names more than {MOST_JOBS} jobs; leave it out and choose in the client")
        for job_id in jobs:
            try:
                platforms |= {self._platforms.known(split_id(job_id)[0])} if not query.get("platform") else set()
            except WrongField as error:
                raise WrongField("jobs", error.reason) from None
        client = Client(platforms or frozenset(self._platforms), frozenset(jobs) or None)
        last_id = request.headers.get("last-event-id") or query.get("lastEventId")
        return Telling(self._live, self._audience, client, self._ping_seconds, missed=bool(last_id))


class Telling(Response):
    """The answer to one client."""

    def __init__(self, live: Live, audience: Audience, client: Client, ping_seconds: float, *, missed: bool) -> None:
        super().__init__(status_code=200, headers=HEADERS)
        del self.headers["content-length"]
        self._live = live
        self._audience = audience
        self._client = client
        self._ping_seconds = ping_seconds
        self._missed = missed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._client.connect(scope["state"]["connection"])
        start: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        if scope["method"] == "HEAD":
            await send(start)
        else:
            with self._audience.holding(self._client):
                with anyio.move_on_after(FEED_SECONDS):
                    await self._live.heard.wait()
                self._client.begin()  # whoever has our head may act at once, and waits to hear of it
                await send(start)
                if not self._live.heard.is_set():
                    body = OPENING + (farewell() if self._live.closing else store_away())
                    await send({"type": "http.response.body", "body": body})
                    return
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._wait_for_departure, receive)
                    await self._tell(send)
                    tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, send: Send) -> None:
        client = self._client
        body = OPENING + greeting() + (RESET if self._missed else b"")
        while not client.over and not self._live.closing:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = client.take()
            if not body and not client.over and not self._live.closing:
                with anyio.move_on_after(self._ping_seconds):
                    await client.news.wait()
                body = client.take() or PING
        if not client.over:
            await send({"type": "http.response.body", "body": farewell(), "more_body": True})

    async def _wait_for_departure(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client.leave()


def listed(text: str | None) -> list[str]:
    return [part for part in (part.strip() for part in (text or "").split(",")) if part]
