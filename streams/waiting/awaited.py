"""Finds what a job awaits from its record; pure."""

from typing import Literal

from msgspec import Struct, field

from tailrace.streams.history.events import iso
from tailrace.streams.messages import Record
from tailrace.streams.states import State
from tailrace.streams.waiting.reasons import Reason
from tailrace.streams.words import Count, Time, Word


class Awaited(Struct, frozen=True):
    """The children or the signal that a job awaits, as clients get it."""

    awaits: Literal["children", "signal"] = field(name="for")
    pending: Count | None = None  # children that have not ended
    signal: Word | None = None
    until: Time | None = None  # when it goes on in any case


def awaited(record: Record) -> Awaited | None:
    """None when it awaits nothing."""
    if record.state is not State.AWAITING:
        return None
    until = iso(record.until_ms) if record.until_ms else None
    what, _, name = (record.awaits or "").partition(" ")
    if what == "signal":
        return Awaited("signal", signal=name.partition(" ")[0], until=until)
    return Awaited("children", pending=record.wanted, until=until)


def why_awaiting(record: Record) -> Reason:
    """A sentence about what a job awaits."""
    what = awaited(record)
    assert what
    limit = f", until {what.until} at the latest" if what.until else ""
    if what.awaits == "signal":
        return Reason("signal", f"It awaits the signal {what.signal}{limit}.", until=what.until)
    children = "1 child" if what.pending == 1 else f"{what.pending} children"
    or_first = " The first child that does not complete lets it go on as well." * record.join_fails
    return Reason("children", f"It awaits the end of {children}{limit}.{or_first}", until=what.until)
