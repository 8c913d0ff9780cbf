"""How an attempt ends, and what a handler may raise to steer it."""

from typing import Any

from msgspec import Struct

from tailrace.streams.messages import Failure


class Delay(Exception):
    """Raised by a handler: try this job again in so many seconds. Not a failure."""

    def __init__(self, seconds: float) -> None:
        self.seconds = checked_seconds(seconds)
        super().__init__(f"put off for {seconds:g} s")


class RateLimited(Delay):
    """Raised by a handler: whoever it asked wants to be left alone so long; no job of the platform starts before."""


class GiveUp(Exception):
    """Raised by a handler: trying again would not help; the job ends failed now."""


class Completed(Struct, frozen=True):
    """The handler returned."""

    result: Any


class Failed(Struct, frozen=True):
    """The handler raised, took too long, or could not be begun."""

    error: Failure
    final: bool = False  # trying again would not help
    reason: str | None = None


class Delayed(Struct, frozen=True):
    """The handler put its job off."""

    seconds: float
    hold: bool = False  # and every other job of its platform


class Released(Struct, frozen=True):
    """The consumer hands the job back unfinished: it is shutting down, or somebody asked the job to stop."""


class Mute(Struct, frozen=True):
    """The attempt no longer owns its job: there is nothing left to say."""


Outcome = Completed | Failed | Delayed | Released | Mute


def checked_seconds(seconds: float) -> float:
    if not 0 <= seconds <= 10 * 366 * 86_400:
        raise ValueError(f"a delay is a number of seconds from 0 to ten years, not {seconds}")
    return seconds
