"""Memory shared by a consumer and its heart: the leases held now, loop lag and refused writes, without a message."""

import math
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator

from tailrace.streams.errors import TailraceError

SLOT = struct.Struct("=dd30sH")
"""By when the attempt must be over, since when it knows that it is to stop, its nonce, and the number of its platform
plus one. The number is written last, and a slot without it is free."""

LONGEST_NONCE = 30
SLOTS = 8192  # leases one process can hold
PLATFORMS = 65536  # as many as a slot can name; memory that is not used costs nothing
BEAT = SLOT.size * SLOTS  # behind the slots: when the last good beat was sent, on any platform and on each
REACH = BEAT + 8 * (
    1 + PLATFORMS
)  # behind that, which is all that a heart writes: how many slots were ever used, so that no look goes over all of them
NOTE = REACH + 2  # behind that: two bytes of length and a note
LONGEST_NOTE = 2046
SIZE = NOTE + 2 + LONGEST_NOTE


class LeaseTable:
    """A table of slots in shared memory: one process writes, one reads; a torn read names a nonce that does not exist.

    All times are of the monotonic clock, which both processes share.
    """

    def __init__(self, fd: int | None = None) -> None:
        """Make a new table, or open the one behind an inherited descriptor."""
        self.fd = _anonymous_file() if fd is None else fd
        self._memory = mmap.mmap(self.fd, SIZE)
        with memoryview(self._memory) as memory:
            slots = memory[:BEAT]
            self._deadlines = slots.cast("d")[:: SLOT.size // 8]  # columns of the table
            self._told = slots.cast("d")[1 :: SLOT.size // 8]
            self._numbers = slots.cast("H")[SLOT.size // 2 - 1 :: SLOT.size // 2]
            self._beat = memory[BEAT:REACH].cast("d")
            self._reach = memory[REACH:NOTE].cast("H")
            self._length = memory[NOTE : NOTE + 2].cast("H")
        self._free = list(range(SLOTS - 1, -1, -1))
        self._used = 0

    def hold(self, platform: int, nonce: str, deadline: float = 0.0) -> int:
        """Note a lease, and by when its attempt must be over (on the monotonic clock); the answer is its slot."""
        if not self._free:
            raise TailraceError(f"one process can run at most {SLOTS} jobs at a time")
        slot = self._free.pop()
        if slot >= self._used:
            self._used = self._reach[0] = slot + 1
        SLOT.pack_into(self._memory, slot * SLOT.size, deadline, 0.0, nonce.encode(), platform + 1)
        return slot

    def tell(self, slot: int) -> None:
        """Note that the attempt was just told to stop."""
        self._told[slot] = time.monotonic()

    def settle(self, slot: int) -> None:
        """Note that the attempt is over and only waits for the store: it is never late."""
        self._told[slot] = math.inf

    def free(self, slot: int) -> None:
        self._numbers[slot] = 0
        self._free.append(slot)

    def held(self, platforms: Iterable[str]) -> dict[str, list[str]]:
        """The nonces held on each of the platforms, which are given in the order of their numbers."""
        found: dict[str, list[str]] = {platform: [] for platform in platforms}
        columns = list(found.values())
        for slot, number in self._in_use():
            if number <= len(columns):
                columns[number - 1].append(self._nonce(slot))
        return found

    def late(self, now: float) -> dict[str, float]:
        """The nonces of attempts that should be over by now, or were asked to stop, each with the time since when."""
        found = {}
        for slot, _ in self._in_use():
            since = self._told[slot] or self._deadlines[slot]
            if 0 < since <= now:
                found[self._nonce(slot)] = since
        return found

    def untold(self) -> set[str]:
        """The nonces of attempts that were not told to stop yet."""
        return {self._nonce(slot) for slot, _ in self._in_use() if not self._told[slot]}

    def beat(self, sent: float, platforms: Iterable[int]) -> None:
        """Note when a beat was sent that arrived on these platforms."""
        self._beat[0] = sent
        for number in platforms:
            self._beat[1 + number] = sent

    def last_beat(self, platform: int | None = None) -> float:
        """The time at which the last beat that arrived was sent, on this platform or on any."""
        return self._beat[0 if platform is None else 1 + platform]

    def _in_use(self) -> Iterator[tuple[int, int]]:
        """Each slot in use, and the number in it."""
        for slot in range(min(SLOTS, self._reach[0])):
            if number := self._numbers[slot]:
                yield slot, number

    def _nonce(self, slot: int) -> str:
        nonce: bytes = SLOT.unpack_from(self._memory, slot * SLOT.size)[2]
        return nonce.rstrip(b"\0").decode("ascii", "replace")

    def note(self, text: bytes) -> None:
        """Leave a note instead of the one before; one that is too long is not left."""
        if len(text) <= LONGEST_NOTE:
            self._length[0] = 0  # a reader finds nothing meanwhile
            self._memory[NOTE + 2 : NOTE + 2 + len(text)] = text
            self._length[0] = len(text)

    def noted(self) -> bytes:
        return self._memory[NOTE + 2 : NOTE + 2 + self._length[0]]

    def close(self) -> None:
        for column in (self._deadlines, self._told, self._numbers, self._beat, self._reach, self._length):
            column.release()
        self._memory.close()
        os.close(self.fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tailrace-leases")
    else:
        fd, path = tempfile.mkstemp(prefix="tailrace-leases-")
        os.unlink(path)
    os.ftruncate(fd, SIZE)
    return fd
