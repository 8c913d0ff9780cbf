"""Server-sent events: one client's stream of one job, resumed exactly where it broke off.

The task of the feed writes news to the connection of each client at once; the task of a client only waits for the end,
and for a client that reads slowly. This is not an EventSourceResponse because a frame is
encoded once and shared by all clients of the job: for 200 clients a delivery takes 13 us of CPU here, and 30 us when it
wakes a task for each client and passes through the layers of an ASGI response, as `/api/events` does.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tailrace.gateway.live.channel import Channel
from tailrace.gateway.live.frames import END, HEADERS, PING, RESET, farewell, greeting, store_away
from tailrace.gateway.live.live import Live
from tailrace.gateway.live.log_reader import AWAY
from tailrace.gateway.live.outlets import outlet_of
from tailrace.streams.history.pages import number_of
from tailrace.streams.keys import PlatformKeys

PATH: Final = "/research/stream/"


class Stream(Response):
    """The answer to one client: a cursor into a channel, and the frames beside the events."""

    def __init__(self, live: Live, keys: PlatformKeys, key: str, last_id: str, ping_seconds: float) -> None:
        super().__init__(status_code=200, headers=HEADERS)
        del self.headers["content-length"]
        self._live = live
        self._job = (keys, key)
        self._last_id = last_id
        self._ping_seconds = ping_seconds
        self._task_needed = asyncio.Event()
        self._before = greeting()
        self._over = True  # nothing is sent: the stream has not begun, or has ended
        self._ping_due = False
        self._departed = False
        self._slow = False  # it has not yet read what it was sent
        self._sent = 0
        self._sent_at_last_pulse = -1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._outlet = outlet_of(scope, send)
        try:
            async with self._live.watch(*self._job, self, number_of(self._last_id) or 0) as channel:
                await self._answer(channel, scope, receive, send)
        except AWAY:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": farewell() if self._live.closing else store_away()})

    async def _answer(self, channel: Channel, scope: Scope, receive: Receive, send: Send) -> None:
        cursor = await self._resume(channel)
        if cursor == channel.end and channel.ended:
            await Response(status_code=204)(scope, receive, send)
            return
        if cursor is None:
            self._before += RESET
        self._channel, self._generation, self._cursor = channel, channel.generation, cursor or 0
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._wait_for_departure, receive)
                await self._run()
                tasks.cancel_scope.cancel()
        await self._outlet.end()

    async def _resume(self, channel: Channel) -> int | None:
        """The cursor at which this client resumes; None: its last id is not in this history."""
        if not self._last_id:
            return 0
        cursor = channel.cursor_after(self._last_id)
        if cursor is None:  # another gateway may have been quicker than our feed: ask the log before saying no
            await self._live.catch_up(channel)
            cursor = channel.cursor_after(self._last_id)
        if cursor is None:
            channel.want(0)
            if channel.unread:
                await self._live.catch_up(channel)
        return cursor

    def wake(self) -> None:
        """Send the next frames, as many as the client takes."""
        if self._slow:
            if self._live.closing:
                self._cut()
        elif not self._over:
            self._send()

    def _send(self) -> None:
        parts: Sequence[bytes] = (b"-",)
        while parts and not self._over:
            if self._outlet.full:
                self._slow = True
                break
            parts, self._over = self._next()
            for part in parts:
                self._outlet.write(part)
            self._sent += len(parts)
        if self._over or self._slow:
            self._task_needed.set()

    async def _run(self) -> None:
        """Return when the job has ended, the client has left, or the gateway closes."""
        self._pulse(asyncio.get_running_loop())
        self._over = False
        counters = self._live.counters
        counters.clients += 1
        try:
            self._send()
            while not self._over:
                await self._task_needed.wait()
                self._task_needed.clear()
                if self._slow:
                    await self._outlet.drain()
                    self._slow = False
                    self._send()
        finally:
            self._over = True
            counters.clients -= 1
            self._timer.cancel()

    def _pulse(self, loop: asyncio.AbstractEventLoop) -> None:
        """Now and then: a ping, and a look whether the client still reads. One timer a client, none a send."""
        if self._slow and self._sent == self._sent_at_last_pulse:
            self._cut()  # it has read too little from pulse to pulse; it can resume by id
        self._sent_at_last_pulse = self._sent
        self._ping_due = True
        self.wake()
        self._timer = loop.call_later(self._ping_seconds, self._pulse, loop)

    def _next(self) -> tuple[Sequence[bytes], bool]:
        """The frames to send now, and whether they are the last. Events come apart, because they are shared."""
        if self._departed or self._outlet.closed:
            return (), True
        if self._live.closing:
            return (farewell(),), True
        before, self._before = self._before, b""
        if self._generation != self._channel.generation:
            self._generation = self._channel.generation
            self._cursor = 0
            before += RESET
        seen = self._cursor
        self._cursor, events = self._channel.after(seen)
        self._live.counters.events_sent += self._cursor - seen
        over = self._cursor == self._channel.end and self._channel.ended
        if self._channel.gone and not self._channel.ended:  # a client that comes back gets 404
            return (before + RESET,), True
        if not over and not events and self._ping_due:
            before += PING
        self._ping_due = False
        after = END if over else b""
        if before or after:
            return tuple(part for part in (before, events, after) if part), over
        return ((events,) if events else ()), over

    async def _wait_for_departure(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._departed = True
        self.wake()

    def _cut(self) -> None:
        self._departed = True
        self._outlet.cut()
