"""A channel: the visible history of one watched job as frames, encoded once and shared by all its watchers."""

import time
from typing import Protocol

from tailrace.gateway.live.frames import event_frame, has_event, has_id
from tailrace.streams.history.fold import Fold, Head, read_head
from tailrace.streams.history.pages import number_of
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Hint
from tailrace.streams.replies import LogPart

CHUNK_BYTES = 64 * 1024  # one send: the memory that a slow client may hold


class Watcher(Protocol):
    """An object that is called when a channel changed."""

    def wake(self) -> None: ...


class HeldFrames:
    """Frames of a history, from behind some event on.

    The log of a job that has shown `seq` events normally holds `seq - 1` entries, because `queued` is not stored.
    Entries written by hand shift that: then the overlap of one entry does not match, and the log is read whole.
    """

    def __init__(self, job_id: str, base: int) -> None:
        """`base`: the number of the event that the frames begin behind; 0: they begin with the first."""
        self.base = base
        self.base_id = ""
        self.frames: list[bytes] = []
        self.fold = Fold(job_id)
        self.seq = 0  # of the newest event shown
        self._entries = base - 1  # of the log, as far as it is in here
        self._last = b""  # the last of them

    @property
    def end(self) -> int:
        """How many events are shown, with those before the base."""
        return self.base + len(self.frames)

    @property
    def next_read(self) -> int:
        """The number of the event to read the log from: the last one held, so that it can be compared."""
        return max(1, self._entries + 1)

    def take(self, part: LogPart) -> bool:
        """Take the log as read from `next_read` on. False: it does not continue what is held."""
        events = part.events
        if self._last or self.base:
            if not events or not (events[0] == self._last if self._last else self._begin_behind(part)):
                return False
            events = events[1:]
        for raw in events:
            head = read_head(raw)
            if head is not None and self.fold.accept(head):
                self._show(head, raw)
            self._entries += 1
            self._last = raw
        return True

    def _begin_behind(self, part: LogPart) -> bool:
        """Go on behind the first of these events. Only a log in order can be read from anywhere."""
        head = read_head(part.events[0])
        if head is None or head.seq != self.base or not part.in_order:
            return False
        self.base_id, self.seq, self._last = head.id, head.seq, part.events[0]
        self.fold.begin_after(head)
        return True

    def follow(self, hint: Hint) -> bool:
        """Take a hint of the feed if it is the very next event or an old one. False: only the log can tell."""
        if hint.seq <= self.seq:
            if hint.event is None or hint.seq <= self.base:
                return True
            place = hint.seq - self.base - 1
            return place < len(self.frames) and has_event(self.frames[place], hint.event)
        if hint.event is None or hint.seq != self.seq + 1:
            return False
        head = read_head(hint.event)
        if head is None or head.seq != hint.seq or not self.fold.accept(head):
            return False
        self._show(head, hint.event)
        self._entries += 1
        self._last = hint.event
        return True

    def _show(self, head: Head, raw: bytes) -> None:
        self.frames.append(event_frame(head.id, raw))
        self.seq = head.seq

    def has(self, number: int, event_id: str) -> bool:
        """Whether the event of this number has this id."""
        if number == self.base:
            return self.base_id == event_id
        place = number - self.base - 1
        return 0 <= place < len(self.frames) and has_id(self.frames[place], event_id)

    def continues(self, shown: "HeldFrames") -> bool:
        """Whether all that was shown stands here too, at the same places."""
        skipped = shown.base - self.base
        if shown.base and not self.has(shown.base, shown.base_id):
            return False
        return self.frames[skipped : skipped + len(shown.frames)] == shown.frames


class Channel:
    """Grows at its end, by the feed when that tells the very next event, else by the log.

    Watchers keep a cursor: how many events they have seen, of all. A channel begins where the first of its watchers
    goes on; for one that has seen less it is read again from there.
    """

    def __init__(self, keys: PlatformKeys, key: str) -> None:
        self.keys = keys
        self.key = key
        self.job_id = keys.id(key)
        self.watchers: set[Watcher] = set()
        self.generation = 0  # counts how often what was shown turned out not to be the history
        self.gone = False  # the job is no longer kept
        self.reading = False  # a read of the log is under way: only it may change the channel
        self._heard = 0.0  # when the feed or the log was last read for it
        self._wanted: int | None = None  # the number of the event to begin behind
        self._held: HeldFrames | None = None
        self._draft: HeldFrames | None = None  # another beginning, as far as it was read
        self._joined: tuple[int, int, bytes] = (0, 0, b"")

    def want(self, base: int) -> None:
        """Begin behind the event of this number, or before it."""
        self._wanted = base if self._wanted is None else min(base, self._wanted)

    @property
    def unread(self) -> bool:
        """Whether the log has to be read before all watchers can be served."""
        return self._held is None or (self._wanted or 0) < self._held.base

    @property
    def frames(self) -> list[bytes]:
        """The frames that it holds, from behind its base on."""
        return self._held.frames if self._held else []

    @property
    def ended(self) -> bool:
        """Whether the job has ended, as far as is known here."""
        return self._held is not None and self._held.fold.ended

    @property
    def quiet_seconds(self) -> float:
        """How long ago the feed or the log was last read for it."""
        return time.monotonic() - self._heard

    @property
    def end(self) -> int:
        """The cursor of a watcher that has seen everything."""
        return self._held.end if self._held else 0

    @property
    def next_read(self) -> int:
        """The number of the event to read the log from."""
        wanted = self._wanted or 0
        if self.unread and (self._draft is None or self._draft.base > wanted):
            self._draft = HeldFrames(self.job_id, wanted)
        reading = self._draft or self._held
        assert reading is not None
        return reading.next_read

    def take(self, part: LogPart) -> bool:
        """Take the log as read from `next_read` on. False: there is more to be read."""
        reading = self._draft or self._held
        if reading is None or not reading.take(part):
            return self._begin_again()
        if part.more:
            return False
        if self._draft:
            if self._held and not self._draft.continues(self._held):
                if self._draft.base:
                    return self._begin_again()
                self.generation += 1
            self._held, self._draft = self._draft, None
            self._joined = (0, 0, b"")
        self._heard = time.monotonic()
        return not self.unread

    def _begin_again(self) -> bool:
        """The log is not what it was, or not in order: only all of it can tell."""
        self._wanted, self._draft = 0, HeldFrames(self.job_id, 0)
        return False

    def follow(self, hint: Hint) -> bool:
        """Take a hint of the feed if it is the very next event or an old one. False: only the log can tell."""
        self._heard = time.monotonic()
        return self._held is not None and not self.unread and self._held.follow(hint)

    def wake(self) -> None:
        for watcher in self.watchers:
            watcher.wake()

    def after(self, cursor: int) -> tuple[int, bytes]:
        """The cursor after the next send, and what to send: all that comes after `cursor`, as far as it fits."""
        end = self.end
        if self._held is None or cursor >= end:
            return cursor, b""
        if self._joined[0] == cursor and self._joined[1] == end:  # most watchers stand at the same place
            return self._joined[1:]
        frames, base, size = self._held.frames, self._held.base, 0
        for stop in range(cursor - base, end - base):
            size += len(frames[stop])
            if size > CHUNK_BYTES and stop > cursor - base:
                return stop + base, b"".join(frames[cursor - base : stop])
        self._joined = (cursor, end, b"".join(frames[cursor - base :]))
        return self._joined[1:]

    def cursor_after(self, last_id: str) -> int | None:
        """The cursor of a client that has seen everything up to this id; None: this history has no such id."""
        number = number_of(last_id)
        if number is None or self._held is None:
            return None
        if self._held.has(number, last_id):
            return number
        # Where the log was written into by hand, an event may have another place than its number says.
        places = enumerate(self._held.frames, self._held.base + 1)
        return next((place for place, held in places if has_id(held, last_id)), None)
