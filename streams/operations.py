"""Transitions to be run, built by name from the headers of their Lua files, and what they answer.

    call.report(keys, key="a", nonce=fence, number=1, most=10_000, event=body)

A transition of one job takes the keys of its platform first; all else is named as its header names it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.streams.errors import TailraceError
from tailrace.streams.functions import Function, functions


class Operation(NamedTuple):
    """One transition to be run: its name, the keys of its job, its arguments in the order of its header."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...]

    @property
    def named(self) -> dict[str, Any]:
        """Its arguments by name."""
        return dict(zip(functions()[self.name].args, self.args, strict=True))


def builder(function: Function) -> Callable[..., Operation]:
    """A function whose keyword arguments are those of a header, so that Python itself checks them.

    A job takes several operations. `tuple.__new__` saves a call for each, as much as keywords cost.
    """
    keys = "".join(f"platform.{name}(key), " for name in function.job_keys)
    args = "".join(f"{name}, " for name in function.args)
    takes = "platform, " * bool(keys) + f"*, {args}" * bool(args)
    source = f"lambda {takes}: new(Operation, ({function.name!r}, ({keys}), ({args})))"
    build: Callable[..., Operation] = eval(source, {"Operation": Operation, "new": tuple.__new__})
    build.__name__ = build.__qualname__ = function.name
    return build


class _Call:
    """Every transition there is, as a function that builds the operation."""

    def __init__(self) -> None:
        vars(self).update({name: builder(function) for name, function in functions().items()})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Operation]: ...


call = _Call()


class Again(NamedTuple):
    """Whether and when a job is tried again; `attempts` 0: not after a failure."""

    seconds: float
    attempts: int
    max_starts: int
    order: str = "block"

    @property
    def rest(self) -> dict[str, Any]:
        """The arguments of `fail` and `delay` about the next try."""
        return {"max_starts": self.max_starts, "delay_ms": round(self.seconds * 1000), "order": self.order}


class AuditNote(NamedTuple):
    """An act for the audit: who asked, further facts, and a token by which a repeated act is kept once."""

    act: str
    token: str
    said: bytes

    def operation(self, key: str, done: str) -> Operation:
        """Keeps it, if the operation before it answers one of the words `done`; empty: a number."""
        return call.note(act=self.act, key=key, said=self.said, done=done, token=self.token)


NO_NOTE = AuditNote("", "", b"")  # without an act


class BrokenOperation(TailraceError):
    """A script found data that Tailrace did not write: a key of another type, a record without its fields."""


def checked(answer: Any) -> Any:
    """The answer itself. Raises `BrokenOperation` when its operation broke."""
    if error := broken(answer):
        raise error
    return answer


def broken(answer: Any) -> BrokenOperation | None:
    if isinstance(answer, list) and answer and answer[0] == b"error":
        return BrokenOperation(answer[1].decode(errors="replace"))
    return None


def word(answer: Any) -> str:
    text: bytes = checked(answer)
    return text.decode()
