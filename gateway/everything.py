"""One stream of many jobs: every event from `started` on, as it happens, of all platforms or of some.

It tells what happens now. A client that was away, or that reads so slowly that it is cut off, is told `reset`: what it
shows may have a gap, and the histories of its jobs tell the rest.
"""

import asyncio
from collections.abc import Sequence

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.live import Live
from gateway.sse import HEADERS, PING, RESET, RETRY
from streams.errors import WrongField
from streams.keys import join_id, split_id
from streams.messages import Hint, encode
from streams.policies import Platforms

MOST_BYTES = 1024 * 1024  # that one client may leave unread
MOST_JOBS = 1000  # that one client may name


class Listener:
    """One client: what it wants to hear, and what it has not been sent yet."""

    def __init__(self, platforms: frozenset[str] | None, jobs: frozenset[str] | None) -> None:
        self._platforms = platforms
        self._jobs = jobs
        self._unsent: list[bytes] = []
        self._size = 0
        self._told = False
        self.news = asyncio.Event()
        self.over = False

    def wants(self, platform: str) -> bool:
        return self._platforms is None or platform in self._platforms

    def hear(self, platform: str, hints: Sequence[Hint]) -> None:
        for hint in hints:
            job_id = join_id(platform, hint.key)
            if self._jobs is None or job_id in self._jobs:
                # Too large to travel in the feed: where it can be read.
                event = hint.event or encode({"jobId": job_id, "seq": hint.seq, "status": "large"})
                self._add(b"data: %b\n\n" % event)

    def doubt(self) -> None:
        """The feed may have been cut; who has heard nothing yet has missed nothing."""
        if self._told:
            self._add(RESET)

    def _add(self, frame: bytes) -> None:
        self._told = True
        self._unsent.append(frame)
        self._size += len(frame)
        self.over = self.over or self._size > MOST_BYTES
        self.news.set()

    def take(self) -> bytes:
        frames, self._unsent, self._size = b"".join(self._unsent), [], 0
        self.news.clear()
        return frames


class Everything:
    """The route of that stream."""

    def __init__(self, live: Live, platforms: Platforms, ping_seconds: float) -> None:
        self._live = live
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
        listener = Listener(platforms or frozenset(self._platforms), frozenset(jobs) or None)
        last_id = request.headers.get("last-event-id") or query.get("lastEventId")
        return Telling(self._live, listener, self._ping_seconds, missed=bool(last_id))


class Telling(Response):
    """The answer to one client."""

    def __init__(self, live: Live, listener: Listener, ping_seconds: float, *, missed: bool) -> None:
        super().__init__(status_code=200, headers=HEADERS)
        del self.headers["content-length"]
        self._live = live
        self._listener = listener
        self._ping_seconds = ping_seconds
        self._missed = missed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            with self._live.told(self._listener):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._wait_for_departure, receive)
                    await self._tell(send)
                    tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, send: Send) -> None:
        body = RETRY + (RESET if self._missed else b"")
        while not self._listener.over and not self._live.closing:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            with anyio.move_on_after(self._ping_seconds):
                await self._listener.news.wait()
            body = self._listener.take() or PING

    async def _wait_for_departure(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.over = True
        self._listener.news.set()


def listed(text: str | None) -> list[str]:
    return [part for part in (part.strip() for part in (text or "").split(",")) if part]
