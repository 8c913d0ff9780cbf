"""Warns when a handler blocked the consumer's loop: which kind, for how long, and at which line.

The loop notes the time a few times a second; one thread looks at that note. When it is old, the thread looks where the
loop's own thread stands. C code that holds the interpreter keeps this thread from running as well: then it can look
only afterwards, and says so.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

from msgspec import Struct

from tailrace.streams.process.logs import get_logger

log = get_logger()

LIMIT_SECONDS = 1.0  # the loop may be blocked for this long without a log line
TICK_SECONDS = 0.25
STILL_SECONDS = 3.0  # then it is logged at once: it may never end, or its process may be ended for it
MOST_SUSPECTS = 3
STANDARD = os.path.dirname(os.__file__)
OURS = os.path.dirname(__file__)
BUSY = 0.5  # a process that used less of a processor than this was not computing: it was stopped, or had to wait


class Suspect(Struct, frozen=True):
    """A job that runs in the loop."""

    job: str
    kind: str
    task: "asyncio.Task[Any] | None"


Suspects = Callable[[], Sequence[Suspect]]


class Sample(Struct, frozen=True):
    """An observation made while the loop was blocked."""

    since: float  # the last time the loop noted before: tells one blocking from another
    at: str
    task: "asyncio.Task[Any] | None"
    late: bool  # the thread that looks was held itself


class Watchdog:
    """Watches the loop it is entered in."""

    def __init__(
        self,
        suspects: Suspects,
        limit_seconds: float = LIMIT_SECONDS,
        ticked: Callable[[float], None] = lambda held_seconds: None,
    ) -> None:
        """`suspects` returns the jobs that were running; `ticked` is called with the lag at each tick."""
        self._suspects = suspects
        self._tell_tick = ticked
        self._limit = limit_seconds
        self._over = threading.Event()
        self._ticked = self._looked = time.monotonic()
        self._used = time.process_time()
        self._sample: Sample | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._ticked = self._looked = time.monotonic()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._over.set()

    # In the loop

    def _tick(self) -> None:
        now, used = time.monotonic(), time.process_time()
        held = now - self._ticked - TICK_SECONDS
        if held >= self._limit:
            sample = self._sample if self._sample and self._sample.since == self._ticked else None
            self._tell("loop_blocked", held, used - self._used, sample)
        self._ticked, self._used = now, used
        self._tell_tick(held)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    # In the thread

    def _watch(self) -> None:
        said_still = 0.0
        while not self._over.wait(TICK_SECONDS):
            now, since = time.monotonic(), self._ticked
            late = now - self._looked - TICK_SECONDS >= self._limit
            self._looked = now
            held = now - since - TICK_SECONDS
            if held < self._limit:
                continue
            if self._sample is None or self._sample.since != since:
                place = place_of(sys._current_frames().get(self._loop_thread))
                self._sample = Sample(since, place, asyncio.current_task(self._loop), late)
            if held >= STILL_SECONDS and said_still != since:
                said_still = since
                self._tell("loop_still_blocked", held, time.process_time() - self._used, self._sample)

    def _tell(self, event: str, held: float, used: float, sample: Sample | None) -> None:
        suspects = list(self._suspects())
        guilty = [suspect for suspect in suspects if sample and suspect.task and suspect.task is sample.task]
        told = guilty or suspects
        note = None
        if sample is None or sample.late:
            note = "the interpreter was held: seen only afterwards"
            if used < BUSY * held:
                note, told = "the whole process stood still: it was stopped, or the machine had no time for it", []
        elif not guilty and len(told) > 1:
            note = "one of these, or something they started"
        log.warning(
            event,
            seconds=round(held, 2),
            kind=", ".join(dict.fromkeys(suspect.kind for suspect in told[:MOST_SUSPECTS])) or None,
            job=", ".join(suspect.job for suspect in told[:MOST_SUSPECTS]) or None,
            at=sample.at if sample else None,
            **({"note": note} if note else {}),
        )


def place_of(frame: FrameType | None) -> str:
    """The line a thread stands at; when that is a library's, also the line of other code that led there."""
    if frame is None:
        return "unknown"
    at, above = line_of(frame), frame.f_back
    if not in_library(frame):
        return at
    while above and in_library(above):
        above = above.f_back
    return f"{at} called at {line_of(above)}" if above and not above.f_code.co_filename.startswith(OURS) else at


def line_of(frame: FrameType) -> str:
    return frame.f_code.co_filename + f":{frame.f_lineno}"


def in_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((STANDARD, "<")) or "site-packages" in name
