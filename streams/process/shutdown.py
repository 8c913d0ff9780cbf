"""Signals: the first one asks for a drain, the second for an end now."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

RESTART = 75  # the exit code that asks a supervisor for another start


class Shutdown:
    """Whether this process was asked to drain, to restart or to end now."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        if self.drain.is_set():
            self.now.set()
        self.drain.set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT until the block ends."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.request)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
