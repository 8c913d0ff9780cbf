"""A job's events as the commands print them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tailrace.ops.terminal import say
from tailrace.producers.following import follow
from tailrace.streams.store.connection import Store


def follow_story(store: Store, job_id: str) -> AsyncIterator[bytes]:
    """The visible events of a job as they come; an outage of the store is said once."""
    return follow(store, job_id, on_outage=lambda error: say(f"{error}; waiting for it"))


def decoded(raw: bytes) -> dict[str, Any]:
    """An event as it stands: the fold has seen to the fields that every event has."""
    return msgspec.json.decode(raw, type=dict[str, Any])
