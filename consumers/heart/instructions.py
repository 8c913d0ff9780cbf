"""What a heart is told when it is started."""

from msgspec import Struct

from tailrace.streams.policies import Policy


class Instructions(Struct, frozen=True):
    """What a heart must know."""

    url: str
    owner: str
    consumer_pid: int
    table_fd: int
    platforms: tuple[str, ...]
    policies: tuple[Policy, ...]  # one for each platform
    beat_seconds: float
    deadline_seconds: float
    reap_seconds: float
    obey_seconds: float
    lifeline_fd: int | None = None
