"""A browser's EventSource as far as the tests need it: reads frames, keeps the last id, comes back with it.

It parses on its own, so that test_event_stream can compare our client's parser with another one.
"""

import asyncio
import codecs
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
from msgspec import json

from tailrace.streams.history.events import Event
from tests.support.builders import Desk, tell

END_OF_LINE = re.compile("\r\n|\n|\r(?=.)", re.DOTALL)  # a CR at the very end may still become both


class Message(NamedTuple):
    """One frame of a stream."""

    event: str  # `message` when the frame names none
    id: str | None
    data: str

    @property
    def told(self) -> Event:
        return json.decode(self.data, type=Event)


class Reading:
    """An open answer."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self.retry: int | None = None
        self.last_id = ""  # what a browser would come back with
        self._lines = lines(response)

    async def messages(self) -> AsyncIterator[Message]:
        """The frames as they come, by the rules of the standard."""
        event, frame_id, data = "message", None, list[str]()
        async for line in self._lines:
            if not line:
                self.last_id = self.last_id if frame_id is None else frame_id
                if data:
                    yield Message(event, frame_id, "\n".join(data))
                event, frame_id, data = "message", None, []
            elif line.startswith(":"):
                self.comments.append(line[1:].strip())
            else:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                match name:
                    case "event":
                        event = value
                    case "id":
                        frame_id = value
                    case "data":
                        data.append(value)
                    case "retry":
                        self.retry = int(value)
                    case _:  # the standard passes over it; we never send such a line
                        raise AssertionError(f"not a line of a stream: {line!r}")

    async def take(self, count: int) -> list[Message]:
        taken = []
        async for message in self.messages():
            taken.append(message)
            if len(taken) == count:
                break
        return taken

    async def rest(self) -> list[Message]:
        """Everything until the server closes."""
        return [message async for message in self.messages()]


async def lines(response: httpx2.Response) -> AsyncIterator[str]:
    """The lines of a stream: they end with CR, LF or both, and with nothing else that Unicode calls a line's end."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")  # one byte order mark at the very beginning is none
    rest = ""
    async for data in response.aiter_bytes():
        rest += decoder.decode(data)
        *whole, rest = END_OF_LINE.split(rest)
        for line in whole:
            yield line


class EventSource:
    """The stream of one job on one gateway."""

    def __init__(self, gateway: str, job_id: str) -> None:
        self.url = f"{gateway}/research/stream/{job_id}"
        self._client = httpx2.AsyncClient(timeout=20, verify=False)  # no TLS here, and its setup takes 30 ms

    async def __aenter__(self) -> "EventSource":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def open(self, last_id: str | None = None, *, in_query: bool = False) -> AsyncIterator[Reading]:
        headers = {"Last-Event-ID": last_id} if last_id is not None and not in_query else {}
        params = {"lastEventId": last_id} if last_id is not None and in_query else {}
        async with self._client.stream("GET", self.url, headers=headers, params=params or None) as response:
            yield Reading(response)


def told(messages: list[Message]) -> list[str]:
    """The statuses that a client got; frames that are no events by their name."""
    return [tell(m.told).replace("step ", "") if m.event == "message" else m.event for m in messages]


def all_jobs(gateway: str, query: str = "") -> EventSource:
    source = EventSource(gateway, "")
    source.url = f"{gateway}/api/events{query}"
    return source


async def live(desk: Desk, reading: Any) -> None:
    """Wait until the stream is live: the feed is read only while a client listens."""
    heard = asyncio.create_task(reading.take(1))
    number = 0
    while not heard.done():
        number += 1
        await desk.complete(await desk.start(f"warm-{number}"))
        await asyncio.wait([heard], timeout=0.05)
