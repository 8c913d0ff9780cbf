"""What a consumer tells of itself, told by its heart: where it runs, its version, its memory, how far its loop lags."""

import socket
import time
import tomllib
from importlib import metadata

import psutil
from msgspec.structs import replace

from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.heart.vitals import Note, read_note
from tailrace.streams.history.events import iso
from tailrace.streams.messages import About, encode
from tailrace.streams.process.launch import HOME

EVERY_SECONDS = 10.0  # often enough for people who look, and one small write in five beats
HELD_SECONDS = 1.0  # a loop that is held for longer is told of with each beat


class Introduction:
    """What is to be told with the next beat, if anything is new."""

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
        self._told: tuple[object, ...] = ()
        self._next = 0.0

    def news(self) -> bytes:
        """JSON, or nothing. It is told again until somebody says that it was `heard`."""
        now = time.monotonic()
        self._note = read_note(self._table) or self._note
        refused = self._note.refused if self._note else ()
        lag_seconds = self._note.lag_seconds(now) if self._note else None
        if now < self._next and refused == self._told and (lag_seconds or 0) < HELD_SECONDS:
            return b""
        lag_seconds = None if lag_seconds is None else round(lag_seconds, 3)
        return encode(replace(self._lasting, memory_bytes=self._memory(), lag_seconds=lag_seconds, refused=refused))

    def heard(self) -> None:
        self._next = time.monotonic() + EVERY_SECONDS
        self._told = self._note.refused if self._note else ()

    def _memory(self) -> int | None:
        try:
            return int(self._consumer.memory_info().rss)
        except psutil.Error:
            return None


def version() -> str | None:
    """Of the installed package, else of this checkout."""
    try:
        return metadata.version("tailrace")
    except metadata.PackageNotFoundError:
        pass
    try:
        project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, LookupError, tomllib.TOMLDecodeError):
        return None
    return str(project.get("version", "")) or None
