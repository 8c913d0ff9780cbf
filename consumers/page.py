"""The page a consumer and its heart share: which leases are held right now, and how it fares, without a message."""

import mmap
import os
import struct
import tempfile

from streams.errors import TailraceError

SLOT = 40  # bytes: the platform's number plus one in two, the length of the nonce, the nonce, its deadline in eight
DEADLINE = SLOT - 8
LONGEST_NONCE = DEADLINE - 3
SLOTS = 8192  # leases one process can hold
REACH = SLOT * SLOTS  # behind the slots, in two bytes: how many of them were ever used, so that nobody looks at all
NOTE = REACH + 2  # behind that: two bytes of length and a note
LONGEST_NOTE = 2046
SIZE = NOTE + 2 + LONGEST_NOTE


class Page:
    """A table of slots in shared memory: one process writes, one reads; a torn read names a nonce nobody has."""

    def __init__(self, fd: int | None = None) -> None:
        """Make a new page, or open the one behind an inherited descriptor."""
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
            self._memory[start + DEADLINE : start + SLOT] = struct.pack("d", deadline)
        whole = (platform + 1).to_bytes(2, "big") + bytes((len(raw),)) + raw
        self._memory[start : start + len(whole)] = whole
        return slot

    def free(self, slot: int) -> None:
        start = slot * SLOT
        self._memory[start : start + 2] = b"\0\0"
        self._memory[start + DEADLINE : start + SLOT] = bytes(8)
        self._free.append(slot)

    def held(self, platforms: int) -> list[list[str]]:
        """The nonces held on each of the platforms."""
        found: list[list[str]] = [[] for _ in range(platforms)]
        for start in self._used():
            number = int.from_bytes(self._memory[start : start + 2], "big")
            if 0 < number <= platforms:
                raw = self._memory[start + 3 : start + 3 + min(self._memory[start + 2], LONGEST_NONCE)]
                found[number - 1].append(raw.decode("ascii", "replace"))
        return found

    def overdue(self, now: float) -> dict[str, float]:
        """The nonces of attempts that should be over by now, each with its deadline."""
        found = {}
        for start in self._used():
            if self._memory[start : start + 2] != b"\0\0":
                (deadline,) = struct.unpack("d", self._memory[start + DEADLINE : start + SLOT])
                if 0 < deadline <= now:
                    raw = self._memory[start + 3 : start + 3 + min(self._memory[start + 2], LONGEST_NONCE)]
                    found[raw.decode("ascii", "replace")] = deadline
        return found

    def _used(self) -> range:
        return range(0, SLOT * min(SLOTS, int.from_bytes(self._memory[REACH:NOTE], "big")), SLOT)

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
    """The part of a page that one platform's runner writes."""

    def __init__(self, page: Page, number: int) -> None:
        self._page = page
        self._number = number

    def hold(self, nonce: str, deadline: float) -> int:
        return self._page.hold(self._number, nonce, deadline)

    def free(self, slot: int) -> None:
        self._page.free(slot)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tailrace-page")
    else:
        fd, path = tempfile.mkstemp(prefix="tailrace-page-")
        os.unlink(path)
    os.ftruncate(fd, SIZE)
    return fd
