"""How an attempt ends."""

from typing import Any

from msgspec import Struct

from streams.messages import Failure


class Completed(Struct, frozen=True):
    """The handler returned."""

    result: Any


class Failed(Struct, frozen=True):
    """The handler raised, or could not be begun."""

    error: Failure


class Released(Struct, frozen=True):
    """The consumer hands the job back unfinished: it is shutting down."""


class Mute(Struct, frozen=True):
    """The attempt no longer owns its job: there is nothing left to say."""


Outcome = Completed | Failed | Released | Mute
