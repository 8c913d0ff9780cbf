"""Checks reports: a step, how many there are, a message and data, all bounded."""

from typing import Any

from tailrace.consumers.outcomes import said_by
from tailrace.streams.history.events import event_body
from tailrace.streams.messages import Step
from tailrace.streams.states import Status

LARGEST_EVENT = 1024 * 1024  # data over 1 MB does not go into the store
LONGEST_STEP = 64
LARGEST_NUMBER = 2**53 - 1  # that a browser takes exactly


def report_event(attempt: int, worker: str, step: Step, of: int | None, message: str | None, data: Any) -> bytes:
    """The event of a report that was checked. Raises when its data cannot be written, or is too large."""
    more = {name: value for name, value in (("of", of), ("message", message), ("data", data)) if value is not None}
    try:
        event = event_body(attempt, Status.PROGRESS, worker, step, **more)
    except Exception as error:  # encoding runs code of the data's own types
        raise unwritable("data", error) from error
    if len(event) > LARGEST_EVENT:
        raise ValueError(f"the report of step {step} has {len(event)} bytes; at most 1 MB goes into the store")
    return event


def check_report(step: object, of: object, message: object) -> None:
    """Raise `TypeError` or `ValueError` for a report that clients could not show."""
    if isinstance(step, str):
        check_name(step)
    elif isinstance(step, bool) or not isinstance(step, int):
        raise TypeError(f"step: expected a whole number or a name, not {type(step).__name__}")
    elif not 0 <= step <= LARGEST_NUMBER:
        raise ValueError(f"step: expected a number from 0 to {LARGEST_NUMBER}, not {shortened(step)}")
    if of is not None:
        if isinstance(of, bool) or not isinstance(of, int):
            raise TypeError(f"of: expected a whole number or None, not {type(of).__name__}")
        if not 1 <= of <= LARGEST_NUMBER:
            raise ValueError(f"of: expected a number from 1 to {LARGEST_NUMBER}, not {shortened(of)}")
        if isinstance(step, int) and step > of:
            raise ValueError(f"step: {step} is beyond of={of}")
    if message is not None:
        if not isinstance(message, str):
            raise TypeError(f"message: expected a string or None, not {type(message).__name__}")
        check_text(message, "message")


def check_name(name: object, argument: str = "step") -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_STEP:
        raise ValueError(f"{argument}: a name has 1 to {LONGEST_STEP} characters")
    check_text(name, argument)


def check_text(text: str, argument: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{argument}: half of a surrogate pair is not text") from None


def shortened(number: int) -> str:
    """A number of any size, for a sentence."""
    return str(number) if abs(number) < 10**20 else f"one of {number.bit_length()} bits"


def unwritable(argument: str, error: Exception) -> Exception:
    """An encoding error with the name of the argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument}: cannot be written as JSON: {said_by(error)}")
