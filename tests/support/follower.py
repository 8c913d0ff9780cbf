"""A client of the live stream: reads events and, when the connection ends, comes back with the last id it saw."""

import asyncio
from contextlib import suppress

import httpx2

from tailrace.gateway.client.event_stream import Frames
from tailrace.streams.history.events import Event, decode_event

RETURN_SECONDS = 0.05  # sooner than a browser, so that a test sees more of it


class Follower:
    """Follows one job to its end, over whatever happens to the gateways."""

    def __init__(self, http: httpx2.AsyncClient, gateway_url: str, job_id: str) -> None:
        self.events: list[Event] = []
        self.connections = 0
        self._http = http
        self._url = f"{gateway_url}/research/stream/{job_id}"
        self._over = False

    async def run(self) -> list[Event]:
        while not self._over:
            with suppress(httpx2.TransportError):
                await self._read()
            await asyncio.sleep(RETURN_SECONDS)
        return self.events

    async def _read(self) -> None:
        last = {"Last-Event-ID": self.events[-1].id} if self.events else {}
        async with self._http.stream("GET", self._url, headers=last, timeout=30.0) as reply:
            assert reply.status_code in (200, 204), reply.status_code
            self._over = reply.status_code == 204
            self.connections += 1
            frames = Frames()
            async for chunk in reply.aiter_bytes():
                for frame in frames.feed(chunk):
                    if frame.event == "message":
                        self.events.append(decode_event(frame.data.encode()))
                    elif frame.event == "reset":
                        self.events.clear()
                    elif frame.event == "end":
                        self._over = True
