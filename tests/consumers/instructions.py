"""What a heart of the tests is told."""

from typing import Any

from msgspec.structs import replace

from tailrace.consumers.heart.messages import Instructions
from tailrace.streams.policies import Policy


def told(*platforms: str, policy: Policy | None = None, **more: Any) -> Instructions:
    """Instructions for platforms of one policy; the rest only matters to some of its roles."""
    usual = Instructions(
        url="",
        owner="ann",
        consumer_pid=1,
        table_fd=0,
        policies=dict.fromkeys(platforms, policy or Policy()),
        beat_seconds=1.0,
        deadline_seconds=10.0,
        reap_seconds=1.0,
        obey_seconds=1.0,
    )
    return replace(usual, **more)
