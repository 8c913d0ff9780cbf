"""The page a consumer and its heart share: which leases are held right now, without a message per job."""

import mmap
import os
import tempfile

from streams.errors import TailraceError

SLOT = 32  # bytes: the platform's number plus one in two, the length of the nonce, the nonce
LONGEST_NONCE = SLOT - 3
SLOTS = 8192  # leases one process can hold


class Page:
    """A table of slots in shared memory: one process writes, one reads; a torn read names a nonce nobody has."""

    def __init__(self, fd: int | None = None) -> None:
        """Make a new page, or open the one behind an inherited descriptor."""
        self.fd = _anonymous_file() if fd is None else fd
        self._memory = mmap.mmap(self.fd, SLOT * SLOTS)
        self._free = list(range(SLOTS - 1, -1, -1))

    def hold(self, platform: int, nonce: str) -> int:
        """Note a lease; the answer is its slot, to be freed later."""
        if not self._free:
            raise TailraceError(f"one process can run at most {SLOTS} jobs at a time")
        slot = self._free.pop()
        raw = nonce.encode()
        whole = (platform + 1).to_bytes(2, "big") + bytes((len(raw),)) + raw
        self._memory[slot * SLOT : slot * SLOT + len(whole)] = whole
        return slot

    def free(self, slot: int) -> None:
        self._memory[slot * SLOT : slot * SLOT + 2] = b"\0\0"
        self._free.append(slot)

    def held(self, platforms: int) -> list[list[str]]:
        """The nonces held on each of the platforms."""
        found: list[list[str]] = [[] for _ in range(platforms)]
        for start in range(0, SLOT * SLOTS, SLOT):
            number = int.from_bytes(self._memory[start : start + 2], "big")
            if 0 < number <= platforms:
                raw = self._memory[start + 3 : start + 3 + min(self._memory[start + 2], LONGEST_NONCE)]
                found[number - 1].append(raw.decode("ascii", "replace"))
        return found

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tailrace-page")
    else:
        fd, path = tempfile.mkstemp(prefix="tailrace-page-")
        os.unlink(path)
    os.ftruncate(fd, SLOT * SLOTS)
    return fd
