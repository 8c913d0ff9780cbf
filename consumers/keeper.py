"""Keeps the heart beating: starts it, listens to it, and starts another when it has fallen silent."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable

import msgspec
import structlog

from consumers.heart import GOODBYE, Instructions, News
from consumers.page import Page

log = structlog.get_logger()

START_SECONDS = 15.0  # a new process on a busy machine may take this long to its first beat


class Keeper:
    """One heart at a time."""

    def __init__(self, instructions: Instructions, page: Page, heard: Callable[[News], None]) -> None:
        self._instructions = instructions
        self._page = page
        self._heard = heard
        self._heart: asyncio.subprocess.Process | None = None
        self._leaving = False

    async def run(self) -> None:
        try:
            while True:
                self._heart = await self._start()
                await self._listen(self._heart)
                if self._leaving:
                    return
                log.warning("heart_restarted", owner=self._instructions.owner)
        finally:
            await self._end()

    async def goodbye(self) -> None:
        """Let the heart tell the store that this consumer leaves, and wait for it."""
        self._leaving = True
        if self._heart and self._heart.stdin and self._heart.returncode is None:
            with contextlib.suppress(OSError, TimeoutError):
                self._heart.stdin.write(GOODBYE)
                await asyncio.wait_for(self._heart.wait(), 2 * self._instructions.beat_seconds)

    async def _start(self) -> asyncio.subprocess.Process:
        descriptors = [fd for fd in (self._instructions.page_fd, self._instructions.lifeline_fd) if fd is not None]
        heart = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "consumers.heart",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
        )
        assert heart.stdin is not None
        heart.stdin.write(msgspec.json.encode(self._instructions) + b"\n")
        return heart

    async def _listen(self, heart: asyncio.subprocess.Process) -> None:
        """Hear the heart until it ends or says nothing for two beats; then make sure that it has ended."""
        assert heart.stdout is not None
        patience = START_SECONDS
        while True:
            begun = time.monotonic()
            try:
                line = await asyncio.wait_for(heart.stdout.readline(), patience)
            except TimeoutError:
                if time.monotonic() - begun > 1.5 * patience:
                    continue  # it was our own loop that stood still: what the heart said meanwhile is still to be read
                break
            if not line:
                break
            patience = 2 * self._instructions.beat_seconds + 0.5
            self._heard(msgspec.json.decode(line, type=News))
        await self._end()

    async def _end(self) -> None:
        heart, self._heart = self._heart, None
        if heart is None:
            return
        if heart.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                heart.kill()
        await heart.communicate()  # also closes what we held of it
