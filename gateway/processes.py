"""Several gateway processes on one port: a parent that serves no requests keeps them alive.

Each has its own socket at the same address, and the kernel spreads new connections evenly over them. With one socket
for all of them, the process that wakes first takes most, and a stream stays where it began. A process that has died
does not listen, so the others get what comes until the next one starts.

This is not uvicorn's own supervisor (`workers=`) because that asks a thread of each process whether it lives, so it
does not replace one whose loop hangs, and its processes stay behind when the parent is killed.
"""

import os
import socket
import subprocess

import anyio

from tailrace.gateway.server import bind_beside
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams.process import launch, lifeline
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.process.supervisor import Process, Supervised, end_all, exited

SETTLE_SECONDS = 2.0  # beyond the grace, to close and say goodbye
LOOK_SECONDS = 1.0  # between two looks at the signs of life of a process
SILENT_LOOKS = 10  # without a sign: it is frozen or hangs, while the kernel goes on to give it its share of clients
FIRST_LOOKS = 60  # until the first sign; a new process on a busy machine takes its time

log = get_logger()


async def keep_processes(settings: GatewaySettings, holder: socket.socket) -> None:
    """Keep all of them alive until SIGTERM or SIGINT, then let them drain. A second signal: end quickly.

    `holder` keeps the port, also while no process listens.
    """
    read_end, _ = os.pipe()  # nothing is written: the other end closes when this process ends
    numbers = range(1, settings.processes + 1)
    children = [GatewayChild(number, settings.processes, holder, read_end) for number in numbers]
    shutdown = Shutdown()
    with shutdown.listening():
        async with anyio.create_task_group() as tasks:
            for child in children:
                tasks.start_soon(child.keep)
            await shutdown.drain.wait()
            await end_all(children, settings.grace_seconds + SETTLE_SECONDS, shutdown)


class GatewayChild(Supervised):
    """One of the processes; it is killed when it shows no life: its clients resume elsewhere."""

    def __init__(self, number: int, processes: int, holder: socket.socket, lifeline_fd: int) -> None:
        super().__init__()
        self._number = number
        self._processes = processes
        self._holder = holder
        self._lifeline_fd = lifeline_fd
        self._pulse = Pulse()

    def start(self) -> Process:
        """Its own process group keeps Ctrl-C in the terminal from it: the parent tells it when to end."""
        self._pulse.begin()
        host, port, *_ = self._holder.getsockname()
        with bind_beside(self._holder) as listener:
            inherited = (listener.fileno(), self._pulse.write_end, self._lifeline_fd)
            return subprocess.Popen(
                launch.command(
                    *("tailrace.gateway", "--host", host, "--port", str(port), "--processes", str(self._processes)),
                    *("--process", str(self._number), "--listener", str(inherited[0]), "--pulse", str(inherited[1])),
                ),
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
                process_group=0,
                env={**os.environ, lifeline.VARIABLE: str(self._lifeline_fd)},
            )

    async def watch(self, process: Process) -> None:
        while not await exited(process, LOOK_SECONDS):
            if not self._pulse.look():
                log.warning("gateway_process_silent", process=self._number, seconds=self._pulse.silent * LOOK_SECONDS)
                return

    def report(self, end: int | OSError, pause: float) -> None:
        code = end if isinstance(end, int) else str(end)
        log.warning("gateway_process_ended", process=self._number, code=code, pause_seconds=pause)


class Pulse:
    """The signs of life of one process after the other, a byte each.

    Silence is counted in looks, not by a clock: when the machine slept, or the parent was frozen, there was no look.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self.write_end, False)  # a process does not wait because its parent does not read
        self.begin()

    def begin(self) -> None:
        """Begin to watch a new process."""
        self._read()
        self._allowed = FIRST_LOOKS
        self.silent = 0  # looks since the last sign

    def look(self) -> bool:
        """Whether the process still seems to live."""
        if self._read():
            self.silent, self._allowed = 0, SILENT_LOOKS
        else:
            self.silent += 1
        return self.silent <= self._allowed

    def _read(self) -> bytes:
        try:
            return os.read(self._read_end, 65536)  # all that a pipe holds
        except BlockingIOError:
            return b""
