"""Several gateway processes on one port: a parent that serves nobody, and keeps the others alive.

Each has a socket of its own at the same address, and the kernel shares out new connections among them evenly. With one
socket for all of them, whoever wakes first takes most, and a stream stays where it began. A process that has died
listens no more, so the others get what comes until there is a new one.

This is not uvicorn's own supervisor (`workers=`) because that asks a thread of each process whether it lives, so it
does not replace one whose loop hangs, and its processes stay behind when the parent is killed.
"""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import anyio
import structlog

from tailrace.gateway.server import bind_beside
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.process import launch, lifeline

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds before another is started
SETTLED_SECONDS = 10.0  # whoever lived this long did not die of its start: the pauses begin small again
SETTLE_SECONDS = 2.0  # beyond the grace, to close and say goodbye
LOOK_SECONDS = 1.0  # between two looks at the signs of life of one
SILENT_LOOKS = 10  # without any, and it is frozen or hangs: the kernel goes on to give it its share of the clients
FIRST_LOOKS = 60  # until the first one; a new process on a busy machine takes its time

log = structlog.get_logger()


class Processes:
    """All processes of one gateway, from the first start to the last end."""

    def __init__(self, settings: GatewaySettings, holder: socket.socket) -> None:
        self._settings = settings
        self._holder = holder  # keeps the port, also while nobody listens
        self._read_end, self._write_end = os.pipe()  # nobody writes: it closes when this process ends
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # by their number
        self._told = asyncio.Event()

    async def run(self) -> None:
        """Keep all of them alive until SIGTERM or SIGINT, then let them drain. A second signal: end quickly."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._tell)
        keeping = [asyncio.create_task(self._keep(number + 1)) for number in range(self._settings.processes)]
        try:
            await self._told.wait()
            await asyncio.wait(keeping, timeout=self._settings.grace_seconds + SETTLE_SECONDS)
        finally:
            for child in self._children.values():
                child.kill()
                child.wait()

    def _tell(self) -> None:
        self._told.set()
        for child in self._children.values():
            with suppress(ProcessLookupError):
                child.terminate()

    async def _keep(self, number: int) -> None:
        pause = FIRST_PAUSE
        while not self._told.is_set():
            begun = time.monotonic()
            try:
                how: int | str = await self._live(number)
            except OSError as error:  # no room for another process, perhaps: the others go on
                how = str(error)
            if self._told.is_set():
                return
            if time.monotonic() - begun > SETTLED_SECONDS:
                pause = FIRST_PAUSE
            log.warning("gateway_process_ended", process=number, code=how, pause_seconds=pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _live(self, number: int) -> int:
        """The whole life of one; its exit code."""
        with Pulse() as pulse:
            child = self._children[number] = self._start(number, pulse)
            watching = asyncio.create_task(self._watch(number, child, pulse))
            try:
                return await ended(child)
            finally:
                watching.cancel()

    async def _watch(self, number: int, child: subprocess.Popen[bytes], pulse: "Pulse") -> None:
        """One that shows no life is killed: its clients resume elsewhere, and another is started."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not pulse.look():
                log.warning("gateway_process_silent", process=number, seconds=pulse.silent * LOOK_SECONDS)
                child.kill()
                return

    def _start(self, number: int, pulse: "Pulse") -> subprocess.Popen[bytes]:
        """Its own process group keeps Ctrl-C in the terminal from it: we tell it when to end."""
        host, port, *_ = self._holder.getsockname()
        with pulse.lent() as beats, bind_beside(self._holder) as listener:
            return subprocess.Popen(
                launch.command(
                    *("tailrace.gateway", "--host", host, "--port", str(port)),
                    *("--processes", str(self._settings.processes)),
                    *("--process", str(number), "--listener", str(listener.fileno()), "--pulse", str(beats)),
                ),
                stdin=subprocess.DEVNULL,
                pass_fds=[listener.fileno(), beats, self._read_end],
                process_group=0,
                env={**os.environ, lifeline.VARIABLE: str(self._read_end)},
            )


class Pulse:
    """The signs of life of one process, a byte each.

    Silence is counted in looks, not by a clock: when the machine slept, or we were frozen ourselves, we did not look.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._ours, False)
        os.set_blocking(self._theirs, False)  # nobody waits because we do not read
        self._allowed = FIRST_LOOKS
        self.silent = 0  # looks since the last sign

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)

    @contextmanager
    def lent(self) -> Iterator[int]:
        """The end for the other process; ours alone while we start it."""
        try:
            yield self._theirs
        finally:
            os.close(self._theirs)

    def look(self) -> bool:
        """Whether it still seems to live."""
        try:
            said = os.read(self._ours, 65536)
        except BlockingIOError:
            said = b""
        self.silent = 0 if said else self.silent + 1
        if said:
            self._allowed = SILENT_LOOKS
        return self.silent <= self._allowed


async def ended(child: subprocess.Popen[bytes]) -> int:
    """Its exit code, once it has one."""
    watched = os.pidfd_open(child.pid)
    try:
        await anyio.wait_readable(watched)
    finally:
        os.close(watched)
    return child.wait()
