"""Worker processes for plain handlers, as their consumer sees them: kept for the next job, killed if need be.

They are not `Supervised`: one is started for a job, and its death is the failure of that job, not a reason to start
another. They are ended as all child processes are.
"""

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import msgspec

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.offload.frames import (
    LEFT_TO_CONSUMER,
    LENGTH,
    RAISED,
    STOP,
    Answered,
    Ask,
    Begin,
    FromProcess,
    Raised,
    Returned,
    ToProcess,
    decode_from,
    frame,
    length_of,
)
from tailrace.consumers.outcomes import Delay, GiveUp, RaisedElsewhere, RateLimited, Rest, Waiting
from tailrace.consumers.program.lifespans import CLOSE_SECONDS
from tailrace.consumers.registry import Handler
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.messages import Failure
from tailrace.streams.process import launch
from tailrace.streams.process.logs import get_logger
from tailrace.streams.process.supervisor import Process, cause, end, exited, kill

log = get_logger()

LOOK_SECONDS = 1.0  # how soon a death is seen whose socket another process still holds open
GONE_SECONDS = 1.0  # how long the end of a killed process is awaited before the loop blocks for it


class GaveUpElsewhere(RaisedElsewhere, GiveUp):
    """A handler gave up in its worker process."""


class WorkerProcesses:
    """A pool with as many worker processes as handlers run in processes at the same time."""

    def __init__(self, stop_seconds: float) -> None:
        """A handler has `stop_seconds` to tidy up before its process is killed."""
        self._stop_seconds = stop_seconds
        self._lifeline = os.pipe()  # nothing is written: it closes when this process ends
        self._all: set[Link] = set()
        self._idle: list[Link] = []

    async def call(self, handler: Handler, attempt: Attempt[Any]) -> Any:
        link = await self._get()
        try:
            said = await link.run(begin_of(handler, attempt), attempt)
        except BaseException:
            self._all.discard(link)
            await link.stop(self._stop_seconds)
            raise
        self._idle.append(link)
        return result_of(said, attempt)

    async def _get(self) -> "Link":
        while self._idle:
            link = self._idle.pop()
            if link.alive:
                return link
            self._all.discard(link)
            link.end()
        link = await Link.start(self._lifeline[0])
        self._all.add(link)
        return link

    async def close(self) -> None:
        """End them all: those that are idle close what their lifespans opened, the others are killed."""
        try:
            await asyncio.gather(*(link.leave(CLOSE_SECONDS) for link in self._idle))
        finally:
            for link in self._all:
                link.end()
            self._all.clear()
            self._idle.clear()
            for descriptor in self._lifeline:
                os.close(descriptor)


class Link:
    """One worker process and the way to it. The process ends when the consumer does: its lifeline closes."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._open = True

    @classmethod
    async def start(cls, lifeline: int) -> "Link":
        process, ours = spawn(lifeline)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            end(process)
            raise
        log.info("worker_process_started", pid=process.pid)
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def run(self, begin: Begin, attempt: Attempt[Any]) -> Returned | Raised:
        """The handler's result, or the error that it raised; its requests to the store are passed on meanwhile."""
        self._say(begin)
        while True:
            said = await self._hear()
            if not isinstance(said, Ask):
                return said
            self._say(await answer_to(said, attempt))

    def _say(self, message: ToProcess) -> None:
        self._writer.write(frame(message))

    async def _hear(self) -> FromProcess:
        said: FromProcess = decode_from(await self._read(length_of(await self._read(LENGTH))))
        return said

    async def _read(self, size: int) -> bytes:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    return await self._reader.readexactly(size)
            except TimeoutError:
                if self.alive:
                    continue
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            raise RaisedElsewhere(await self._death())

    async def _death(self) -> Failure:
        """The failure for a process that ended by itself."""
        gone = await exited(self._process, GONE_SECONDS)
        how = cause(self._process.returncode) if gone else "closed its socket"
        return Failure("WorkerProcessDied", f"the worker process {how} before its handler returned")

    async def stop(self, seconds: float) -> None:
        """Have the handler tidy up for a moment, then kill it and all that it started."""
        try:
            if self.alive:
                self._process.send_signal(STOP)
                await exited(self._process, seconds)
            kill(self._process)
            await exited(self._process, GONE_SECONDS)  # a large one takes a while, and the loop has other work
        finally:
            self.end()

    async def leave(self, seconds: float) -> None:
        """Have an idle process end by itself."""
        if self.alive:
            self._writer.write_eof()
            await exited(self._process, seconds)

    def end(self) -> None:
        """Kill it now, also what it started and left behind, and close what leads to it."""
        if self._open:
            self._open = False
            kill(self._process)
            end(self._process)
            self._writer.close()


def spawn(lifeline: int) -> tuple[Process, socket.socket]:
    """A worker process, and the socket that leads to it."""
    ours, theirs = socket.socketpair()
    # A signal to all processes of this consumer must not reach it before it has handlers for signals.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_TO_CONSUMER)
    try:
        with theirs:
            process = subprocess.Popen(
                launch.command("tailrace.consumers.offload.worker_process", str(theirs.fileno()), str(lifeline)),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), lifeline],
                process_group=0,  # so that all that a handler starts is killed with it
            )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return process, ours


def begin_of(handler: Handler, attempt: Attempt[Any]) -> Begin:
    function = handler.function
    file = getattr(inspect.unwrap(function), "__globals__", {}).get("__file__")
    return Begin(
        function.__module__,
        os.path.abspath(file) if file else None,
        function.__qualname__,
        attempt.claim,
        attempt.job.platform,
        attempt.worker,
        sys.path,
    )


async def answer_to(asked: Ask, attempt: Attempt[Any]) -> Answered:
    args = asked.args
    if asked.verb == "progress" and args[3] is not None:
        args[3] = msgspec.Raw(args[3])
    try:
        return Answered(await attempt.ask(asked.verb, *args))
    except tuple(RAISED.values()) as error:
        raised = next(name for name, kind in RAISED.items() if isinstance(error, kind))
        return Answered(raised=raised, why=str(error))


def result_of(said: Returned | Raised, attempt: Attempt[Any]) -> Any:
    """The result as JSON has it, or the error raised here as it was there."""
    if isinstance(said, Returned):
        return msgspec.json.decode(said.result)
    if said.how == "lost":
        raise Lost(attempt.job.id, attempt.number)
    if said.how == "cancelled":
        raise Cancelled(attempt.job.id, attempt.number)
    if said.how == "rest":
        raise Rest
    if said.how == "waiting":
        raise Waiting
    if said.how == "delay":
        raise Delay(said.seconds)
    if said.how == "rate_limited":
        raise RateLimited(said.seconds)
    assert said.failure is not None
    raise (GaveUpElsewhere if said.how == "give_up" else RaisedElsewhere)(said.failure)
