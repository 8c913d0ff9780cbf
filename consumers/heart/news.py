"""What a heart tells its consumer, line by line, and how the consumer says goodbye to it."""

import os
from collections.abc import Iterator

import msgspec
from msgspec import Struct

GOODBYE = b"goodbye\n"
LEAVE_SECONDS = 2.0  # to tell the store that a consumer leaves; if that fails, others see its silence
MOST_NEWS = 15  # of each sort in one line


class News(Struct, frozen=True, omit_defaults=True):
    """What a heart has to tell: a sign of life when it is empty."""

    lost: list[tuple[str, str]] = []  # platform, nonce: attempts that are no longer the consumer's
    stray: list[tuple[str, str, str]] = []  # platform, key, nonce: jobs the consumer owns and does not seem to run
    stop: list[tuple[str, str]] = []  # platform, nonce: attempts that somebody asked to stop
    restart: bool = False  # somebody asked the platforms' consumers to drain and leave

    def lines(self) -> Iterator["News"]:
        """The same in pieces: a pipe takes up to 4 KB whole, or nothing."""
        for start in range(0, max(1, len(self.lost), len(self.stray), len(self.stop)), MOST_NEWS):
            piece = slice(start, start + MOST_NEWS)
            yield News(self.lost[piece], self.stray[piece], self.stop[piece], self.restart)


def tell(line: News) -> bool:
    """Say it without ever waiting; whether there was room: a consumer whose loop is blocked does not read."""
    try:
        os.write(1, msgspec.json.encode(line) + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return False
    return True
