"""A job to be submitted, and the answer."""

from typing import Any

from msgspec import Struct

from tailrace.streams.options import NO_OPTIONS, Options
from tailrace.streams.states import State


class Submission(Struct, frozen=True):
    """A job to be submitted."""

    platform: str
    kind: str
    args: Any = {}  # decoded JSON
    id: str | None = None  # the caller's key; the same key again is the same job
    options: Options = NO_OPTIONS
    children: tuple["Submission", ...] = ()  # jobs that are to end before its handler is called; see flows.py


class Submitted(Struct, frozen=True):
    """The answer to a submission: the job, its state, and whether it had been accepted before."""

    id: str
    status: State
    replayed: bool
    deduplicated: bool = False  # it is another job, which holds the same `dedupe` key
