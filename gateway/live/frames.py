"""The frames of our event streams as bytes; no other module writes frames."""

import random
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tailrace.streams.keys import join_id
from tailrace.streams.messages import Hint, encode
from tailrace.streams.words import JobId, Ordinal

JobFrame = tuple[str, bytes]  # the id of a job, and the frame of one of its events

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that gathers before it sends would hold back the newest event
}

RESET = b"event: reset\ndata: {}\n\n"
END = b"event: end\ndata: {}\n\n"
PING = b": ping\n\n"

# A browser comes back with the last id it was given. The events of all jobs have none, so their stream itself has one.
STREAM_ID = b"id: live\n"


def event_frame(event_id: str, event: bytes) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (event_id.encode(), event)


def data_frame(event: bytes) -> bytes:
    """An event without an id."""
    return b"data: %b\n\n" % event


def has_id(frame: bytes, event_id: str) -> bool:
    return frame.startswith(b"id: %b\n" % event_id.encode())


def has_event(frame: bytes, event: bytes) -> bool:
    return frame.endswith(b"\n" + data_frame(event))


class LargeEvent(Struct, frozen=True):
    """Stands for an event that is too large for the stream of all jobs; the history of its job has it."""

    jobId: JobId
    seq: Ordinal
    status: Literal["large"]


def frames_of(platform: str, hints: Sequence[Hint]) -> list[JobFrame]:
    """The frames of the stream of all jobs."""
    named = [(join_id(platform, hint.key), hint) for hint in hints]
    return [(job_id, data_frame(hint.event or encode(LargeEvent(job_id, hint.seq, "large")))) for job_id, hint in named]


def greeting() -> bytes:
    """The pause before a reconnect: a random time, so that many clients do not come at once."""
    return b"retry: %d\n\n" % random.randint(500, 1500)


def farewell() -> bytes:
    """The last frame when the gateway closes the stream: reconnect, to another gateway."""
    return b": this gateway ends; come back\nretry: %d\n\n" % random.randint(500, 2500)


def store_away() -> bytes:
    """The frames while the store is away. Not 503: a browser's EventSource would give up for ever."""
    return b": the store does not answer; come back\nretry: %d\n\n" % random.randint(2000, 4000)
