"""Child processes: one that is started again whenever it ends, and how any of them is ended."""

import asyncio
import math
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

import anyio

from tailrace.streams.process.shutdown import RESTART, Shutdown

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between the end of a process and the next start
SETTLED_SECONDS = 10.0  # a process that ran this long has started well: the next pause is short again
HURRY_SECONDS = 2.0  # what processes may still take after a second signal
LOOK_SECONDS = 0.05  # where the kernel does not announce the end of a process

Process = subprocess.Popen[bytes]


class Supervised(ABC):
    """One child process that is kept alive until it is asked to end. A subclass starts it and reports its ends.

    It is not started as a subprocess of the loop: a start that is cancelled halfway must leave nothing behind.
    """

    longest_pause = LONGEST_PAUSE

    def __init__(self) -> None:
        self.process: Process | None = None
        self.told = asyncio.Event()
        self.ended = asyncio.Event()  # for good

    @abstractmethod
    def start(self) -> Process:
        """Start the process. Raises `OSError` when it cannot be started now."""

    @abstractmethod
    def report(self, end: int | OSError, pause: float) -> None:
        """Say how it ended, or why it cannot be started, and that the next start follows after `pause` seconds.

        Raises what makes another start useless.
        """

    async def watch(self, process: Process) -> None:
        """Return when the process has ended, or is to be killed because it hangs."""
        await exited(process)

    async def keep(self) -> None:
        pause = FIRST_PAUSE
        try:
            while not self.told.is_set():
                begun = time.monotonic()
                end = await self._live()
                if self.told.is_set():
                    break
                if end == RESTART or time.monotonic() - begun > SETTLED_SECONDS:
                    pause = FIRST_PAUSE
                self.report(end, pause)
                if end != RESTART:
                    with anyio.move_on_after(pause):
                        await self.told.wait()
                    pause = min(2 * pause, self.longest_pause)
        finally:
            self.kill()
            self.ended.set()

    async def _live(self) -> int | OSError:
        try:
            process = self.process = self.start()
        except OSError as error:
            return error
        await self.watch(process)
        end(process)
        return process.returncode

    def tell(self) -> None:
        """Ask the process to end; most processes end at once after a second request.

        The second one is another signal: a busy process may not have received the first yet, and two equal signals
        that are pending are one.
        """
        number = signal.SIGINT if self.told.is_set() else signal.SIGTERM
        self.told.set()
        if self.process:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it now."""
        self.told.set()
        if self.process:
            end(self.process)


async def end_all(children: Sequence[Supervised], seconds: float, shutdown: Shutdown) -> None:
    """Ask children to end, and wait for them up to `seconds`; after a second signal, only a moment."""
    for child in children:
        child.tell()

    async def hurry(limit: anyio.CancelScope) -> None:
        await shutdown.now.wait()
        for child in children:
            child.tell()
        limit.deadline = min(limit.deadline, anyio.current_time() + HURRY_SECONDS)

    with anyio.move_on_after(seconds) as limit:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hurry, limit)
            for child in children:
                await child.ended.wait()
            tasks.cancel_scope.cancel()
    for child in children:
        child.kill()
        await child.ended.wait()


async def exited(process: Process, seconds: float = math.inf) -> bool:
    """Wait at most `seconds` until a process has ended; whether it has."""
    with anyio.move_on_after(seconds):
        if hasattr(os, "pidfd_open") and process.poll() is None:
            with suppress(OSError):  # a sandbox may forbid it
                ending = os.pidfd_open(process.pid)
                try:
                    await anyio.wait_readable(ending)
                finally:
                    os.close(ending)
        while process.poll() is None:  # noqa: ASYNC110 - without a pidfd there is nothing to wait for
            await anyio.sleep(LOOK_SECONDS)
    return process.poll() is not None


def kill(process: Process) -> None:
    """Kill it, and its process group if it leads one."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def end(process: Process) -> None:
    """Kill a process that still runs, close the pipes to it, and reap it."""
    with process:
        if process.poll() is None:
            kill(process)


def cause(end: int | OSError) -> str:
    """How a process ended: by its exit code, or because it could not be started."""
    if isinstance(end, OSError):
        return f"cannot be started ({end.strerror})"
    if end >= 0:
        return f"ended with exit code {end}"
    try:
        return f"was killed by {signal.Signals(-end).name}"
    except ValueError:
        return f"was killed by signal {-end}"
