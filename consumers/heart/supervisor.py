"""Keeps the heart beating: starts it, listens to it, and starts another when it ends or falls silent."""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import anyio
import msgspec

from tailrace.consumers.heart.messages import GOODBYE, LEAVE_SECONDS, Instructions, News
from tailrace.streams.process import launch
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.supervisor import Process, Supervised, cause

log = get_logger()

START_SECONDS = 15.0  # a new process on a busy machine may take this long to its first beat


class HeartSupervisor(Supervised):
    """One heart at a time."""

    longest_pause = 0.2  # leases are lost while none beats

    def __init__(self, instructions: Instructions, heard: Callable[[News], None]) -> None:
        super().__init__()
        self._instructions = instructions
        self._heard = heard

    async def goodbye(self) -> None:
        """Let the heart tell the store that this consumer leaves, and wait for it a little."""
        self.told.set()
        if self.process and self.process.stdin:
            try:
                os.write(self.process.stdin.fileno(), GOODBYE)
            except (OSError, ValueError):  # it has just ended
                return
            with anyio.move_on_after(LEAVE_SECONDS + 1):
                await self.ended.wait()

    def start(self) -> Process:
        metrics = self._instructions.metrics
        shared = (self._instructions.table_fd, self._instructions.lifeline_fd, metrics.page_fd if metrics else None)
        descriptors = [fd for fd in shared if fd is not None]
        heart = subprocess.Popen(
            launch.command("tailrace.consumers.heart"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            bufsize=0,
        )
        assert heart.stdin is not None
        with suppress(BrokenPipeError):  # it has died; `watch` sees that
            heart.stdin.write(msgspec.json.encode(self._instructions) + b"\n")
        return heart

    def report(self, end: int | OSError, pause: float) -> None:
        log.warning("heart_restarted", owner=self._instructions.owner, cause=cause(end))

    async def watch(self, process: Process) -> None:
        """Hear the heart until it ends or says nothing for two beats."""
        assert process.stdout is not None
        patience, rest = START_SECONDS, b""
        while True:
            begun = time.monotonic()
            with anyio.move_on_after(patience) as waiting:
                await anyio.wait_readable(process.stdout)
            if waiting.cancelled_caught:
                if time.monotonic() - begun > 1.5 * patience:
                    continue  # our own loop stood still: what the heart said meanwhile is still to be read
                log.warning("heart_silent", owner=self._instructions.owner, seconds=patience)
                return
            said = process.stdout.read(65536)
            if not said:
                return
            patience = 2 * self._instructions.beat_seconds + 0.5
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                self._heard(msgspec.json.decode(line, type=News))
