"""A worker process: runs plain handlers for its consumer, one at a time, and ends when its consumer does.

It is started with the arguments SOCKET and LIFELINE: two inherited descriptors. Nothing it does
reaches the store but through its consumer.
"""

import importlib
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tailrace.consumers.attempts.blocking import SyncAttempt
from tailrace.consumers.attempts.reports import LARGEST_EVENT, check_report, unwritable
from tailrace.consumers.offload.frames import (
    LEFT_TO_CONSUMER,
    LENGTH,
    RAISED,
    STOP,
    Answered,
    Ask,
    Begin,
    Raised,
    Returned,
    decode_to,
    frame,
    length_of,
)
from tailrace.consumers.outcomes import ChildFailed, Delay, GiveUp, RateLimited, Rest, Waiting, failure_of, said_by
from tailrace.consumers.program.lifespans import BlockingLifespans
from tailrace.consumers.program.loading import module_of_file
from tailrace.consumers.registry import Handler, Handlers
from tailrace.streams.errors import BadConfiguration, Cancelled, Lost, WrongField
from tailrace.streams.messages import Failure, Job, Step, encode
from tailrace.streams.process import lifeline
from tailrace.streams.process.logs import about, configure_logs


class WorkerProcess:
    """The worker's side of the socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._running: Begin | None = None
        self._stopped = False
        self._found: dict[tuple[str, str], Handler] = {}
        self._lifespans = BlockingLifespans()  # each is opened with the first job that needs it

    def run(self) -> None:
        signal.signal(STOP, self._stop)
        while True:
            begin = decode_to(self._read())
            if isinstance(begin, Begin):
                answer = self._answer(begin)
                if self._stopped:
                    self._leave()
                self._link.sendall(answer)

    def _answer(self, begin: Begin) -> bytes:
        outcome = self._outcome(begin)
        try:
            return frame(outcome)
        except Exception as error:  # a handler may raise a delay that is not a number
            return frame(Raised("error", failure=failure_of(error)))

    def _read(self) -> bytes:
        return self._exactly(length_of(self._exactly(LENGTH)))

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            piece = self._link.recv(min(size - len(got), 1 << 20))
            if not piece:
                self._leave()  # the consumer drains, or is gone
            got += piece
        return bytes(got)

    def _leave(self) -> None:
        """End this process, and close what is open here."""
        signal.signal(STOP, signal.SIG_IGN)
        self._lifespans.close()
        os._exit(0)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Raise `Cancelled` in the handler wherever it is, so that it can tidy up; then end this process."""
        if self._running is None:
            os._exit(0)
        self._stopped = True
        raise Cancelled(job_of(self._running).id, self._running.claim.number)

    def _outcome(self, begin: Begin) -> Returned | Raised:
        about(job=job_of(begin).id, attempt=begin.claim.number, platform=begin.platform, owner=begin.worker)
        try:
            self._running = begin
            result = self._call(begin)
            self._running = None
            return result
        except Lost:
            return Raised("lost")
        except Cancelled:
            return Raised("cancelled")
        except Rest:
            return Raised("rest")
        except Waiting:
            return Raised("waiting")
        except Delay as later:
            return Raised("rate_limited" if isinstance(later, RateLimited) else "delay", seconds=later.seconds)
        except BaseException as error:
            return Raised("give_up" if isinstance(error, GiveUp | ChildFailed) else "error", failure=failure_of(error))
        finally:
            self._running = None

    def _call(self, begin: Begin) -> Returned | Raised:
        handler = self._handler(begin)
        job = job_of(begin)
        attempt = SyncAttempt(job, begin.claim, handler.decode(begin.claim.args), begin.worker, self._ask)
        if handler.lifespan:
            attempt.state = self._lifespans.open(handler.lifespan)
        result = handler.function(attempt)
        try:
            encoded = encode(result)
        except Exception as error:  # encoding runs code of the result's own types
            return wrong_result(f"the result cannot be kept as JSON: {said_by(error)}")
        if len(encoded) > LARGEST_EVENT:
            return wrong_result(f"the result has {len(encoded)} bytes; at most 1 MB goes into the store")
        return Returned(encoded)

    def _handler(self, begin: Begin) -> Handler:
        known = begin.claim.kind, begin.name
        if known not in self._found:
            sys.path[:] = begin.path
            self._found[known] = find_handler(begin)
        return self._found[known]

    def _ask(self, verb: str, *args: Any) -> Any:
        asked = Ask(verb, report_of(*args) if verb == "progress" else list(args))
        self._link.sendall(frame(asked))
        told = decode_to(self._read())
        assert isinstance(told, Answered)
        assert self._running is not None
        if not told.raised:
            return told.answer
        kind = RAISED[told.raised]
        if kind in (Lost, Cancelled):
            raise kind(job_of(self._running).id, self._running.claim.number)
        if kind is WrongField:
            raise WrongField("", told.why)
        raise kind(told.why)


def report_of(step: Step, of: int | None, message: str | None, data: Any, wait: bool) -> list[Any]:
    """The args of `progress` as they cross to the consumer."""
    check_report(step, of, message)
    try:
        return [step, of, message, None if data is None else encode(data), wait]
    except Exception as error:  # encoding runs code of the data's own types
        raise unwritable("data", error) from error


def job_of(begin: Begin) -> Job:
    return Job(begin.platform, begin.claim.key, begin.claim.kind, begin.claim.args)


def wrong_result(message: str) -> Raised:
    return Raised("give_up", failure=Failure("WrongResult", message))


def find_handler(begin: Begin) -> Handler:
    """The handler of the consumer, found again here: by kind, in the sets that its module knows."""
    module = find_module(begin.module, begin.file)
    for handlers in sets_in(module):
        handler = handlers.get(begin.claim.kind)
        if handler and handler.function.__qualname__ == begin.name:
            return handler
    raise BadConfiguration(f"no handler {begin.name} of the kind {begin.claim.kind} in {begin.module}")


def sets_in(first: ModuleType) -> Iterator[Handlers]:
    for module in (first, *sys.modules.values()):
        yield from (value for value in list(vars(module).values()) if isinstance(value, Handlers))


def find_module(name: str, file: str | None) -> ModuleType:
    """By its name, when that leads to the same file; else the file itself: handlers may be given as one."""
    if loaded := sys.modules.get(name):
        if file is None or same_file(loaded.__file__, file):
            return loaded
    else:
        try:
            spec = importlib.util.find_spec(name)
        except ImportError:
            spec = None
        if spec and (file is None or same_file(spec.origin, file)):
            return importlib.import_module(name)
    if file is None:
        raise BadConfiguration(f"the worker process cannot import {name}")
    taken = name in sys.modules  # by our own `__main__`, or by a module of ours: the handlers may be a `consumers.py`
    return module_of_file(Path(file), f"__handlers_{name}" if taken else name)


def same_file(one: str | None, other: str) -> bool:
    return one is not None and os.path.exists(one) and os.path.samefile(one, other)


def main(link_fd: int, lifeline_fd: int) -> None:
    lifeline.end_with_parent()  # even while a handler holds the interpreter
    lifeline.watch(lifeline_fd)  # the consumer may have ended before, and not every kernel ends us with it
    for ignored in LEFT_TO_CONSUMER:
        signal.signal(ignored, lambda *_: None)  # not SIG_IGN, which programs started by a handler would inherit
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEFT_TO_CONSUMER)
    configure_logs()
    try:
        WorkerProcess(socket.socket(fileno=link_fd)).run()
    except Cancelled:  # told to stop when there was nothing left to stop
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
