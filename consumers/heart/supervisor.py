"""Keeps the heart beating: starts it, listens to it, and starts another when it has fallen silent."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import anyio
import msgspec
import structlog

from tailrace.consumers.heart.instructions import Instructions
from tailrace.consumers.heart.news import GOODBYE, LEAVE_SECONDS, News
from tailrace.streams.process import launch

log = structlog.get_logger()

RESTART_SECONDS = 0.2  # one that dies at once must not be started as fast as it dies
START_SECONDS = 15.0  # a new process on a busy machine may take this long to its first beat


class HeartSupervisor:
    """One heart at a time."""

    def __init__(self, instructions: Instructions, heard: Callable[[News], None]) -> None:
        self._instructions = instructions
        self._heard = heard
        self._heart: subprocess.Popen[bytes] | None = None
        self._leaving = False
        self._left = anyio.Event()

    async def run(self) -> None:
        try:
            while not self._leaving:
                self._heart = self._start()
                await self._listen(self._heart)
                self._end()
                if not self._leaving:
                    log.warning("heart_restarted", owner=self._instructions.owner)
                    await anyio.sleep(RESTART_SECONDS)
        finally:
            self._end()
            self._left.set()

    async def goodbye(self) -> None:
        """Let the heart tell the store that this consumer leaves, and wait for it a little."""
        self._leaving = True
        if self._heart and self._heart.stdin:
            try:
                os.write(self._heart.stdin.fileno(), GOODBYE)
            except OSError:
                return
            with anyio.move_on_after(LEAVE_SECONDS + 1):
                await self._left.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # Not the loop's own subprocess: a start that is cancelled halfway must leave nothing behind.
        descriptors = [fd for fd in (self._instructions.table_fd, self._instructions.lifeline_fd) if fd is not None]
        heart = subprocess.Popen(
            launch.command("tailrace.consumers.heart"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            bufsize=0,
        )
        assert heart.stdin is not None
        heart.stdin.write(msgspec.json.encode(self._instructions) + b"\n")
        return heart

    async def _listen(self, heart: subprocess.Popen[bytes]) -> None:
        """Hear the heart until it ends or says nothing for two beats."""
        assert heart.stdout is not None
        patience = START_SECONDS
        lines = LineSplitter()
        while True:
            begun = time.monotonic()
            with anyio.move_on_after(patience) as waiting:
                await anyio.wait_readable(heart.stdout)
            if waiting.cancelled_caught:
                if time.monotonic() - begun > 1.5 * patience:
                    continue  # it was our own loop that stood still: what the heart said meanwhile is still to be read
                return
            said = heart.stdout.read(65536)
            if not said:
                return
            patience = 2 * self._instructions.beat_seconds + 0.5
            for line in lines.of(said):
                self._heard(msgspec.json.decode(line, type=News))

    def _end(self) -> None:
        if self._heart:
            with self._heart:  # closes the pipes and waits
                self._heart.kill()
            self._heart = None


class LineSplitter:
    """Whole lines out of what a pipe brings in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        yield from lines
