"""A child that is kept alive: started again when it dies, with growing pauses, until it is told to end."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence

import anyio

from tailrace.ops.terminal import say
from tailrace.ops.up.children import Family
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.shutdown import RESTART, Shutdown

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds before another is started
SETTLED_SECONDS = 10.0  # whoever lived this long did not die of its start: the pauses begin small again
HURRY_SECONDS = 2.0  # what is left to children after a second Ctrl-C
BAD_CONFIGURATION = 78  # the exit code of a child that another start would not help


class Supervised:
    """One child of `up`."""

    def __init__(self, family: Family, name: str, command: Sequence[str], **variables: str | None) -> None:
        self.name = name
        self._family = family
        self._command = command
        self._variables = variables
        self._process: asyncio.subprocess.Process | None = None
        self._told = anyio.Event()
        self.ended = anyio.Event()

    async def keep(self) -> None:
        pause = FIRST_PAUSE
        try:
            while not self._told.is_set():
                begun = time.monotonic()
                try:
                    process = await self._start()
                except OSError as error:  # no room for its log, no process to be had
                    say(f"{self.name} cannot be started ({error.strerror}); another try in {pause:g} s")
                    pause = await self._rest(pause)
                    continue
                code = await process.wait()
                if self._told.is_set():
                    break
                if code == BAD_CONFIGURATION:
                    raise BadConfiguration(f"{self.name} does not start: {self._last_words()}")
                if code == RESTART:
                    say(f"{self.name} (process {process.pid}) was asked to restart; another starts now")
                    pause = FIRST_PAUSE
                    continue
                if time.monotonic() - begun > SETTLED_SECONDS:
                    pause = FIRST_PAUSE
                log = self._family.log(self.name)
                say(f"{self.name} (process {process.pid}) {cause(code)}; another starts in {pause:g} s (see {log})")
                pause = await self._rest(pause)
        finally:
            self.ended.set()

    async def _rest(self, pause: float) -> float:
        """Wait before another start; the pause before the one after that."""
        with anyio.move_on_after(pause):
            await self._told.wait()
        return min(pause * 2, LONGEST_PAUSE)

    def tell(self) -> None:
        """Ask it to end; the second time: now."""
        self._told.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and whatever it started."""
        self._told.set()
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until the process has ended: a loop that closes before would complain."""
        if self._process:
            await self._process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        options = self._family.options(self.name, **self._variables)
        with options["stdout"]:
            self._process = await asyncio.create_subprocess_exec(*self._command, **options)
        if self._told.is_set():  # told while it was being started
            self._signal(signal.SIGTERM)
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _last_words(self) -> str:
        lines = self._family.log(self.name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


async def end(children: Sequence[Supervised], seconds: float, shutdown: Shutdown) -> None:
    """Ask children to end and wait for them, not longer than `seconds`, and hardly at all after a second Ctrl-C."""
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


def cause(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
