"""One stream of many jobs: every event from `started` on, as it happens, of all platforms or of some.

It tells what happens now. A client that was away, or that reads so slowly that it is cut off, is told `reset` when it
comes back: what it shows may have a gap, and the histories of its jobs tell the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import anyio
from msgspec import Struct
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tailrace.gateway.live.frames import RESET, farewell, greeting, store_away
from tailrace.gateway.live.job_stream import LAST_ID, StreamConnection
from tailrace.gateway.live.live import Live
from tailrace.gateway.problems import Code
from tailrace.gateway.route_table import READ, STREAM, Answer, Parameter, group
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import Event
from tailrace.streams.keys import join_id, split_id
from tailrace.streams.messages import Hint, encode
from tailrace.streams.policies import Platforms
from tailrace.streams.words import JobId, Ordinal

MOST_BYTES = 1024 * 1024  # that one client may leave unread
SEND_BYTES = 64 * 1024  # of one send: these are copied, so a slow client may not hold more of them
MOST_JOBS = 1000  # that one client may name
FEED_SECONDS = 1.0  # for the feed to be read again, when nobody has watched before

# A browser comes back with the last id it was given. The events have none, so the stream itself has one.
OPENING = b"id: live\n"
PING_EVENT = ServerSentEvent(comment="ping", sep="\n")

# The library would cut streams off within half a second of a signal; ours say farewell when the server closes them.
AppStatus.enable_automatic_graceful_drain = False


route = group("events")

PLATFORMS = Parameter("EventsPlatform", "query", "platform", "Only of these platforms, with commas between.")
JOBS = Parameter("EventsJobs", "query", "jobs", f"Only of these jobs, with commas between; {MOST_JOBS} at most.")


class LargeEvent(Struct, frozen=True):
    """Stands for an event that is too large for the stream of all jobs; the history of its job has it."""

    jobId: JobId
    seq: Ordinal
    status: Literal["large"]


class Client:
    """What one client wants to hear, and what it has not been sent yet."""

    def __init__(self, platforms: frozenset[str], jobs: frozenset[str] | None) -> None:
        self._platforms = platforms
        self._jobs = jobs
        self._unsent: list[bytes] = []  # shared with all others
        self._size = 0
        self._began = False
        self._connection: StreamConnection | None = None
        self._over = False
        self.news = asyncio.Event()

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
        if self._over:
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

    def _cut(self) -> None:
        """Drop the connection and all that is unsent."""
        self._over = True
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
            event = hint.event or encode(LargeEvent(job_id, hint.seq, "large"))
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

    @route(
        "GET",
        "/api/events",
        READ,
        {200: Answer("The events, as they happen.", (Event, LargeEvent), media=(STREAM,))},
        asks=(PLATFORMS, JOBS, *LAST_ID),
        refuses=(Code.WRONG_FIELD, Code.PLATFORM_FORBIDDEN),
        store=False,
    )
    async def follow_all(self, request: Request) -> Response:
        """What happens from now on, of many jobs in one stream.

        Events have no id here, and none is repeated: `event: reset` says that some may be missing, and the histories
        have them.
        """
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


class Telling(EventSourceResponse):
    """The answer to one client: the library sends pings and notices when the client leaves."""

    def __init__(self, live: Live, audience: Audience, client: Client, ping_seconds: float, *, missed: bool) -> None:
        super().__init__(self._frames(), ping=ping_seconds, ping_message_factory=lambda: PING_EVENT)
        del self.headers["connection"]  # uvicorn decides whether the connection stays open
        self._live = live
        self._audience = audience
        self._client = client
        self._missed = missed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        self._client.connect(scope["state"]["connection"])
        with self._audience.holding(self._client):
            with anyio.move_on_after(FEED_SECONDS):
                await self._live.heard.wait()
            self._client.begin()  # a client that has the head may act at once and expects to hear of it
            await super().__call__(scope, receive, send)

    async def _frames(self) -> AsyncIterator[bytes]:
        if not self._live.heard.is_set():
            yield OPENING + (farewell() if self._live.closing else store_away())
            return
        yield OPENING + greeting() + (RESET if self._missed else b"")
        while not self._live.closing:
            if frames := self._client.take():
                yield frames
            else:
                await self._client.news.wait()
        yield farewell()


def listed(text: str | None) -> list[str]:
    return [part for part in (part.strip() for part in (text or "").split(",")) if part]
