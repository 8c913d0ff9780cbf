"""What a consumer and its worker processes say to each other: one length and one message at a time.

Args, data and results travel as the JSON they are kept as, so that a process gives nothing the store would refuse.
"""

import signal

import msgspec
from msgspec import Struct

from tailrace.streams.messages import Claim, Failure, Step

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


class Report(Struct, frozen=True, tag=True):
    """From the process: the handler shows a step, and waits."""

    step: Step
    of: int | None
    message: str | None
    data: bytes | None


class Heard(Struct, frozen=True, tag=True):
    """To the process: the step was shown, or what `progress` raises instead."""

    how: str = "shown"  # or lost, cancelled, refused
    why: str = ""


class Returned(Struct, frozen=True, tag=True):
    """From the process: the handler's result."""

    result: bytes


class Raised(Struct, frozen=True, tag=True):
    """From the process: what the handler raised."""

    how: str  # lost, cancelled, delay, rate_limited, give_up or error
    seconds: float = 0.0
    failure: Failure | None = None


ToProcess = Begin | Heard
FromProcess = Report | Returned | Raised

_encode = msgspec.msgpack.Encoder().encode
decode_to = msgspec.msgpack.Decoder(ToProcess).decode
decode_from = msgspec.msgpack.Decoder(FromProcess).decode


def frame(message: ToProcess | FromProcess) -> bytes:
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


def length_of(head: bytes) -> int:
    return int.from_bytes(head, "big")
