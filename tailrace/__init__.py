"""Background jobs on Redis Streams with one visible history per job, whatever happens to its workers.

The rooms are `tailrace.streams`, `tailrace.producers`, `tailrace.consumers`, `tailrace.gateway` and `tailrace.ops`. In
a checkout they are the folders beside this one. A public name is imported when it is first used: the command line
prints its help without loading the packages behind it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.consumers import Attempt, ChildFailed, Delay, GiveUp, Handlers, RateLimited, SyncAttempt, Waiting
    from tailrace.consumers.program.serving import consume
    from tailrace.gateway import follow
    from tailrace.producers import Flow, JobInfo, Submitted, Sync, Tailrace
    from tailrace.streams.errors import (
        JobCancelled,
        JobFailed,
        JobNotFound,
        OtherBody,
        StoreError,
        TailraceError,
        WrongField,
        WrongState,
    )
    from tailrace.streams.history.events import Event
    from tailrace.streams.schedules import Schedule

__all__ = [
    "Attempt",
    "ChildFailed",
    "Delay",
    "Event",
    "Flow",
    "GiveUp",
    "Handlers",
    "JobCancelled",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "OtherBody",
    "RateLimited",
    "Schedule",
    "StoreError",
    "Submitted",
    "Sync",
    "SyncAttempt",
    "Tailrace",
    "TailraceError",
    "Waiting",
    "WrongField",
    "WrongState",
    "consume",
    "follow",
]

_ROOMS = {
    "consumers": ("Attempt", "ChildFailed", "Delay", "GiveUp", "Handlers", "RateLimited", "SyncAttempt", "Waiting"),
    "gateway": ("follow",),
    "consumers.program.serving": ("consume",),
    "producers": ("Flow", "JobInfo", "Submitted", "Sync", "Tailrace"),
    "streams.history.events": ("Event",),
    "streams.schedules": ("Schedule",),
}  # all others are errors


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = next((room for room, names in _ROOMS.items() if name in names), "streams.errors")
    return getattr(import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
