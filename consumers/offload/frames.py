"""Messages between a consumer and its worker processes, each with its length in front.

Args, data and results travel as the JSON they are kept as, so that a process gives nothing the store would refuse.
"""

import signal
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.consumers.outcomes import Rest
from tailrace.streams.errors import Cancelled, Lost, StoreFull, WrongField
from tailrace.streams.messages import Claim, Failure

LENGTH = 4  # bytes in front of a message
LEFT_TO_CONSUMER = (signal.SIGINT, signal.SIGTERM)  # when a worker process is done is for its consumer to say
STOP = signal.SIGUSR1  # not SIGTERM: a supervisor may send that to every process of a consumer that is to drain


class Begin(Struct, frozen=True, tag=True):
    """To the process: run this handler."""

    module: str
    file: str | None
    name: str
    claim: Claim
    platform: str
    worker: str
    path: list[str]  # where the consumer itself finds modules


class Ask(Struct, frozen=True, tag=True):
    """Sent by the process: the handler calls its attempt, and waits."""

    verb: str
    args: list[Any]


class Answered(Struct, frozen=True, tag=True):
    """To the process: the answer, or what the verb raises instead."""

    answer: Any = None
    raised: str = ""  # the type: one of RAISED
    why: str = ""


class Returned(Struct, frozen=True, tag=True):
    """Sent by the process: the handler's result."""

    result: bytes


class Raised(Struct, frozen=True, tag=True):
    """Sent by the process: the error that the handler raised."""

    how: str  # lost, cancelled, rest, waiting, delay, rate_limited, give_up or error
    seconds: float = 0.0
    failure: Failure | None = None


RAISED: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (Lost, Cancelled, Rest, StoreFull, WrongField, TimeoutError, TypeError, ValueError)
}
"""The errors that a method of the attempt may raise, by the name that is sent to the process."""

ToProcess = Begin | Answered
FromProcess = Ask | Returned | Raised

_encode = msgspec.msgpack.Encoder().encode
decode_to = msgspec.msgpack.Decoder(ToProcess).decode
decode_from = msgspec.msgpack.Decoder(FromProcess).decode


def frame(message: ToProcess | FromProcess) -> bytes:
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


def length_of(head: bytes) -> int:
    return int.from_bytes(head, "big")
