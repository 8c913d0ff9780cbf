"""An exception as a client sees it."""

import traceback

from streams.messages import Failure

LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 8000


class RaisedElsewhere(Exception):
    """A handler raised in its worker process; `failure` tells what."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.type}: {failure.message}")
        self.failure = failure


def failure_of(error: BaseException) -> Failure:
    """Its type, what it says and where it was raised, bounded."""
    if isinstance(error, RaisedElsewhere):
        return error.failure
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:
        text = "the traceback cannot be shown"
    return Failure(type(error).__name__, said_by(error)[:LONGEST_MESSAGE], _safe(text)[-LONGEST_TRACEBACK:])


def said_by(error: BaseException) -> str:
    try:
        return _safe(str(error))
    except Exception:
        return "it cannot say what is wrong: its own __str__ fails"


def _safe(text: str) -> str:
    """Without lone surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
