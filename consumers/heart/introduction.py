"""Facts about a consumer that its heart writes with beats: host, version, memory, loop lag."""

import socket
import time
from importlib import metadata

import psutil
from msgspec.structs import replace

from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.heart.vitals import Note, read_note
from tailrace.streams.history.events import iso
from tailrace.streams.messages import About, RefusedWrites, encode

EVERY_SECONDS = 10.0  # often enough for people who look, and one small write in five beats
HELD_SECONDS = 1.0  # a loop that is held for longer is reported with each beat


class Introduction:
    """The facts to write with the next beat, if any has changed."""

    def __init__(self, consumer: psutil.Process, table: LeaseTable, deadline_seconds: float) -> None:
        self._consumer = consumer
        self._table = table
        self._lasting = About(
            host=socket.gethostname()[:64],
            pid=consumer.pid,
            version=version(),
            started_at=iso(int(consumer.create_time() * 1000)),
            deadline_seconds=deadline_seconds,
        )
        self._note: Note | None = None
        self._told: tuple[RefusedWrites, ...] = ()
        self._next = 0.0

    def news(self) -> bytes:
        """JSON, or nothing. The same again until `heard` is called."""
        now = time.monotonic()
        self._note = read_note(self._table) or self._note
        lag_seconds = round(self._note.lag_seconds(now), 3) if self._note else None
        if now < self._next and self._refused == self._told and (lag_seconds or 0) < HELD_SECONDS:
            return b""
        try:
            memory_bytes = int(self._consumer.memory_info().rss)
        except psutil.Error:
            memory_bytes = None
        news = replace(self._lasting, memory_bytes=memory_bytes, lag_seconds=lag_seconds, refused=self._refused)
        return encode(news)

    def heard(self) -> None:
        self._next = time.monotonic() + EVERY_SECONDS
        self._told = self._refused

    @property
    def _refused(self) -> tuple[RefusedWrites, ...]:
        return self._note.refused if self._note else ()


def version() -> str | None:
    """The version of the installed package; None in a checkout that is not installed."""
    try:
        return metadata.version("tailrace")
    except metadata.PackageNotFoundError:
        return None
