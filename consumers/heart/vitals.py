"""Loop lag and refused writes of a consumer, noted in the memory that it shares with its heart."""

import time
from collections import deque

import msgspec
from msgspec import Struct

from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.watchdog import TICK_SECONDS
from tailrace.streams.messages import RefusedWrites, encode

REMEMBERED = 40  # ticks of the loop: the last ten seconds
MOST_REFUSED = 8  # attempts that are named


class Note(Struct, frozen=True, array_like=True):
    """The note in that memory."""

    ticked: float  # when the loop last ran, on the monotonic clock
    held_seconds: float  # the longest it was held lately
    refused: tuple[RefusedWrites, ...] = ()

    def lag_seconds(self, now: float) -> float:
        """A loop that is held just now cannot say so itself."""
        return max(self.held_seconds, now - self.ticked - TICK_SECONDS)


class Vitals:
    """Noted by the loop itself, with each of its ticks."""

    def __init__(self, table: LeaseTable) -> None:
        self._table = table
        self._held: deque[float] = deque(maxlen=REMEMBERED)
        self._refused: dict[tuple[str, int], int] = {}

    def tick(self, held_seconds: float) -> None:
        self._held.append(max(0.0, held_seconds))
        refused = tuple(RefusedWrites(job_id, attempt, n) for (job_id, attempt), n in self._refused.items())
        self._table.note(encode(Note(time.monotonic(), max(self._held), refused)))

    def refuse(self, job_id: str, attempt: int, writes: int) -> None:
        """An attempt wrote after its job was taken over."""
        self._refused[job_id, attempt] = self._refused.pop((job_id, attempt), 0) + writes
        while len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]


_decode = msgspec.json.Decoder(Note).decode


def read_note(table: LeaseTable) -> Note | None:
    """The latest note of the consumer; None: there is none yet, or it is being written."""
    try:
        return _decode(table.noted())
    except msgspec.MsgspecError:
        return None
