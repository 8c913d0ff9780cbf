"""The page of shared memory on which a consumer leaves its counters for its heart.

The loop writes it a few times a second; the heart reads it when Prometheus asks. So a scrape is answered while a
handler holds the loop, or the whole interpreter, and costs the consumer nothing.
"""

import mmap
import os
import struct
import tempfile
from collections.abc import Sequence

import msgspec

from tailrace.consumers.metrics.counters import PlatformCounters
from tailrace.streams.process.logs import get_logger

HEAD = struct.Struct("=QQ")  # the number of the edition, odd while it is being written; the length of the text
SIZE = 4 * 1024 * 1024  # a few thousand platforms; memory is used only as far as it is written

log = get_logger()

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[PlatformCounters]).decode


class CounterPage:
    """One process writes, one reads."""

    def __init__(self, fd: int | None = None) -> None:
        """Make a new page, or open the one behind an inherited descriptor."""
        self.fd = _anonymous_file() if fd is None else fd
        self._memory = mmap.mmap(self.fd, SIZE)
        self._edition = 0
        self._full = False
        self._last: list[PlatformCounters] = []

    def write(self, counters: Sequence[PlatformCounters]) -> None:
        text = _encode(counters)
        if HEAD.size + len(text) > SIZE:
            if not self._full:
                log.error("metrics_too_large", bytes=len(text), note="counters of this consumer stay as they were")
            self._full = True
            return
        self._edition += 2
        HEAD.pack_into(self._memory, 0, self._edition - 1, len(text))
        self._memory[HEAD.size : HEAD.size + len(text)] = text
        HEAD.pack_into(self._memory, 0, self._edition, len(text))

    def read(self) -> list[PlatformCounters]:
        """The text that was last written whole."""
        for _ in range(3):
            edition, length = HEAD.unpack_from(self._memory, 0)
            text = self._memory[HEAD.size : HEAD.size + length]
            if edition and edition % 2 == 0 and HEAD.unpack_from(self._memory, 0) == (edition, length):
                self._last = _decode(text)
                break
        return self._last

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tailrace-counters")
    else:
        fd, path = tempfile.mkstemp(prefix="tailrace-counters-")
        os.unlink(path)
    os.ftruncate(fd, SIZE)
    return fd
