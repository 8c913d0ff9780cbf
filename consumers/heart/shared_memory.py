"""The table a consumer and its heart share: which leases are held right now, and how it fares, without a message."""

import math
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator

from tailrace.streams.errors import TailraceError

SLOT = 48  # bytes: the platform's number plus one in two, the length of the nonce, the nonce, two times in eight each
DEADLINE = SLOT - 16  # by when the attempt must be over
TOLD = SLOT - 8  # since when it knows that it is to stop
LONGEST_NONCE = DEADLINE - 3
SLOTS = 8192  # leases one process can hold
BEAT = SLOT * SLOTS  # behind the slots, in eight bytes: when the last good beat was sent; the one thing a heart writes
REACH = BEAT + 8  # behind that, in two bytes: how many slots were ever used, so that nobody looks at all
NOTE = REACH + 2  # behind that: two bytes of length and a note
LONGEST_NOTE = 2046
SIZE = NOTE + 2 + LONGEST_NOTE


class LeaseTable:
    """A table of slots in shared memory: one process writes, one reads; a torn read names a nonce nobody has.

    All times are of the monotonic clock, which both processes share.
    """

    def __init__(self, fd: int | None = None) -> None:
        """Make a new table, or open the one behind an inherited descriptor."""
        self.fd = _anonymous_file() if fd is None else fd
        self._memory = mmap.mmap(self.fd, SIZE)
        self._free = list(range(SLOTS - 1, -1, -1))
        self._reach = 0

    def hold(self, platform: int, nonce: str, deadline: float = 0.0) -> int:
        """Note a lease, and by when its attempt must be over (on the monotonic clock); the answer is its slot."""
        if not self._free:
            raise TailraceError(f"one process can run at most {SLOTS} jobs at a time")
        slot = self._free.pop()
        if slot >= self._reach:
            self._reach = slot + 1
            self._memory[REACH:NOTE] = self._reach.to_bytes(2, "big")
        raw = nonce.encode()
        start = slot * SLOT
        if deadline:
            self._write_time(start + DEADLINE, deadline)
        whole = (platform + 1).to_bytes(2, "big") + bytes((len(raw),)) + raw
        self._memory[start : start + len(whole)] = whole
        return slot

    def tell(self, slot: int) -> None:
        """Note that the attempt was just told to stop."""
        self._write_time(slot * SLOT + TOLD, time.monotonic())

    def settle(self, slot: int) -> None:
        """Note that the attempt is over and only waits for the store: it is never late."""
        self._write_time(slot * SLOT + TOLD, math.inf)

    def free(self, slot: int) -> None:
        start = slot * SLOT
        self._memory[start : start + 2] = b"\0\0"
        self._memory[start + DEADLINE : start + SLOT] = bytes(SLOT - DEADLINE)
        self._free.append(slot)

    def held(self, platforms: int) -> list[list[str]]:
        """The nonces held on each of the platforms."""
        found: list[list[str]] = [[] for _ in range(platforms)]
        for start, number in self._used():
            if number <= platforms:
                found[number - 1].append(self._nonce(start))
        return found

    def late(self, now: float) -> dict[str, float]:
        """The nonces of attempts that should be over by now, or were told to stop, each with the time since when."""
        found = {}
        for start, _ in self._used():
            deadline, told = self._read_time(start + DEADLINE), self._read_time(start + TOLD)
            since = told or deadline
            if 0 < since <= now:
                found[self._nonce(start)] = since
        return found

    def untold(self) -> set[str]:
        """The nonces of attempts that nobody has told to stop yet."""
        return {self._nonce(start) for start, _ in self._used() if not self._read_time(start + TOLD)}

    def beat(self, sent: float) -> None:
        """Note when a beat was sent that arrived."""
        self._write_time(BEAT, sent)

    def last_beat(self) -> float:
        return self._read_time(BEAT)

    def _used(self) -> Iterator[tuple[int, int]]:
        """Where each slot in use begins, and the number in it."""
        for start in range(0, SLOT * min(SLOTS, int.from_bytes(self._memory[REACH:NOTE], "big")), SLOT):
            if number := int.from_bytes(self._memory[start : start + 2], "big"):
                yield start, number

    def _nonce(self, start: int) -> str:
        raw = self._memory[start + 3 : start + 3 + min(self._memory[start + 2], LONGEST_NONCE)]
        return raw.decode("ascii", "replace")

    def _write_time(self, place: int, seconds: float) -> None:
        self._memory[place : place + 8] = struct.pack("d", seconds)

    def _read_time(self, place: int) -> float:
        (seconds,) = struct.unpack("d", self._memory[place : place + 8])
        return float(seconds)

    def note(self, text: bytes) -> None:
        """Leave a note instead of the one before; one that is too long is not left."""
        if len(text) <= LONGEST_NOTE:
            start = NOTE + 2
            self._memory[NOTE:start] = b"\0\0"  # whoever reads meanwhile finds nothing
            self._memory[start : start + len(text)] = text
            self._memory[NOTE:start] = len(text).to_bytes(2, "big")

    def noted(self) -> bytes:
        length = int.from_bytes(self._memory[NOTE : NOTE + 2], "big")
        return self._memory[NOTE + 2 : NOTE + 2 + length]

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


class Places:
    """The part of a table that one platform's runner writes."""

    def __init__(self, table: LeaseTable, number: int) -> None:
        self._table = table
        self._number = number

    def hold(self, nonce: str, deadline: float) -> int:
        return self._table.hold(self._number, nonce, deadline)

    def tell(self, slot: int) -> None:
        self._table.tell(slot)

    def settle(self, slot: int) -> None:
        self._table.settle(slot)

    def free(self, slot: int) -> None:
        self._table.free(slot)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tailrace-leases")
    else:
        fd, path = tempfile.mkstemp(prefix="tailrace-leases-")
        os.unlink(path)
    os.ftruncate(fd, SIZE)
    return fd
