"""What a stream says beside the events, as bytes."""

import random

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that gathers before it sends would hold back the newest event
}

RESET = b"event: reset\ndata: {}\n\n"
END = b"event: end\ndata: {}\n\n"
PING = b": ping\n\n"


def greeting() -> bytes:
    """When to come back, should the connection break: by chance, so that many clients do not come as one."""
    return b"retry: %d\n\n" % random.randint(500, 1500)


def farewell() -> bytes:
    """We close: come back, to another gateway."""
    return b": this gateway ends; come back\nretry: %d\n\n" % random.randint(500, 2500)


def store_away() -> bytes:
    """Not 503: on that a browser's EventSource gives up for ever."""
    return b": the store does not answer; come back\nretry: %d\n\n" % random.randint(2000, 4000)
