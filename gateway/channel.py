"""A channel: the visible history of one watched job as frames, encoded once and shared by all who watch it."""

import re
from typing import Protocol

from gateway.fold import Fold, Head, read_head
from streams.keys import PlatformKeys
from streams.messages import Hint

CHUNK_BYTES = 64 * 1024  # one send: what a slow client may hold up of our memory

_ID = re.compile(r"([0-9]{1,18})-[0-9]{1,24}")


class Watcher(Protocol):
    """Somebody who wants to know when a channel changed."""

    def wake(self) -> None: ...


def frame(head: Head, raw: bytes) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (head.id.encode(), raw)


class Channel:
    """Grows at its end, by the feed when that tells the very next event, else by the log. Watchers keep a cursor.

    The log of a job that has shown `seq` events normally holds `seq - 1` entries, because `queued` is not stored.
    Entries written by hand shift that: then the overlap of one entry does not match, and the log is read whole.
    """

    def __init__(self, keys: PlatformKeys, key: str) -> None:
        self.keys = keys
        self.key = key
        self.job_id = keys.id(key)
        self.watchers: set[Watcher] = set()
        self.generation = 0  # counts how often what was shown turned out not to be the history
        self.gone = False  # the job is no longer kept
        self.reading = False  # a read of the log is under way: only it may change the channel
        self._clear()

    def _clear(self) -> None:
        self.frames: list[bytes] = []
        self.fold = Fold(self.job_id)
        self._entries = 0  # of the log, as far as it is in here
        self._last = b""  # the last of them
        self._seq = 0  # of the newest event shown
        self._joined: tuple[int, int, bytes] = (0, 0, b"")

    @property
    def next_read(self) -> int:
        """The number of the event to read the log from: the last one held, so that it can be compared."""
        return self._entries + 1

    def follow(self, hint: Hint) -> bool:
        """Take a word of the feed if it is the very next event or an old one. False: only the log can tell."""
        if hint.seq <= self._seq:
            if hint.event is None:
                return True
            held = self.frames[hint.seq - 1] if hint.seq <= len(self.frames) else b""
            return held.endswith(b"\ndata: %b\n\n" % hint.event)
        if hint.event is None or hint.seq != self._seq + 1 or not self.frames:
            return False
        head = read_head(hint.event)
        if head is None or head.seq != hint.seq or not self.fold.accept(head):
            return False
        self._show(head, hint.event)
        self._entries += 1
        self._last = hint.event
        return True

    def extend(self, events: list[bytes]) -> bool:
        """Take the log as read from `next_read` on. False: it does not continue what is held; read it whole."""
        if not events or events[0] != self._last:
            return False
        for raw in events[1:]:
            self._fold(raw)
        return True

    def replace(self, events: list[bytes]) -> None:
        """Take the whole log, `queued` first. What was shown stays if the log begins with it; else all is told anew."""
        shown = self.frames
        self._clear()
        for raw in events:
            self._fold(raw)
        self._entries -= 1  # `queued` is not in the log
        if self.frames[: len(shown)] != shown:
            self.generation += 1

    def _fold(self, raw: bytes) -> None:
        self._entries += 1
        self._last = raw
        head = read_head(raw)
        if head is not None and self.fold.accept(head):
            self._show(head, raw)

    def _show(self, head: Head, raw: bytes) -> None:
        self.frames.append(frame(head, raw))
        self._seq = head.seq

    def wake(self) -> None:
        for watcher in self.watchers:
            watcher.wake()

    def after(self, cursor: int) -> tuple[int, bytes]:
        """The cursor after the next send, and what to send: all that comes after `cursor`, as far as it fits."""
        end = len(self.frames)
        if cursor >= end:
            return cursor, b""
        if self._joined[0] == cursor and self._joined[1] == end:  # most watchers stand at the same place
            return self._joined[1:]
        size = 0
        for stop in range(cursor, end):
            size += len(self.frames[stop])
            if size > CHUNK_BYTES and stop > cursor:
                return stop, b"".join(self.frames[cursor:stop])
        self._joined = (cursor, end, b"".join(self.frames[cursor:end]))
        return self._joined[1:]

    def cursor_after(self, last_id: str) -> int | None:
        """The cursor of a client that has seen everything up to this id; None: this history has no such id."""
        match = _ID.fullmatch(last_id)
        if match is None:
            return None
        begin = b"id: %b\n" % last_id.encode()
        place = int(match[1]) - 1
        if 0 <= place < len(self.frames) and self.frames[place].startswith(begin):
            return place + 1
        return next((i for i, held in enumerate(self.frames, 1) if held.startswith(begin)), None)
