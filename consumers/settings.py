"""The settings of a consumer process."""

import re
import secrets
import socket
from collections.abc import Sequence
from typing import Self

from msgspec import Struct

from tailrace.streams.errors import BadConfiguration
from tailrace.streams.policies import Platforms
from tailrace.streams.process.settings import Environment


class ConsumerSettings(Struct, frozen=True):
    """One consumer process."""

    platforms: tuple[str, ...]
    """The platforms it serves, from the command line or WORKER_PLATFORMS; unset: all that are declared."""
    owner: str
    """Its name in leases and events, unique for every process that ever runs."""
    beat_seconds: float = 2.0
    """How often its heart beats."""
    deadline_seconds: float = 10.0
    """Silence after which its leases count as lost; at least three beats, so that a late one is no loss."""
    reap_seconds: float = 1.0
    """How often its heart looks for others that fell silent; at most a third of the deadline, or one late look in a row
    would leave too few of them to tell silence from blindness."""
    grace_seconds: float = 25.0
    """How long running jobs may go on after SIGTERM; below the 30 s that most supervisors wait."""
    obey_seconds: float = 5.0
    """How long a handler may take to stop when it is cancelled; then its attempt is settled all the same."""
    concurrency: int = 0
    """Jobs at a time over all its platforms; 0: only the platforms' own limits."""
    handlers: str | None = None
    """Import path or file of the user's handlers."""
    metrics_port: int | None = None
    """Where it serves /metrics, /healthz and /readyz; None: nowhere."""
    metrics_host: str = "127.0.0.1"
    """The address it serves them at; they ask for no key."""

    @classmethod
    def read(
        cls,
        platforms: Platforms,
        *,
        serve: Sequence[str] = (),
        handlers: str | None = None,
        environment: Environment | None = None,
    ) -> Self:
        env = environment or Environment()
        beat = env.number("TAILRACE_BEAT_SECONDS", 2.0, least=0.05)
        deadline = env.number("TAILRACE_DEADLINE_SECONDS", 10.0, least=0.15)
        if round(deadline - 3 * beat, 9) < 0:
            raise BadConfiguration(
                f"TAILRACE_DEADLINE_SECONDS is {deadline:g} and TAILRACE_BEAT_SECONDS is {beat:g}; "
                "the deadline must be at least three beats"
            )
        reap = env.number("TAILRACE_REAP_SECONDS", min(1.0, deadline / 3), least=0.05)
        if round(deadline - 3 * reap, 9) < 0:
            raise BadConfiguration(
                f"TAILRACE_REAP_SECONDS is {reap:g}; it must be at most {deadline / 3:g}, "
                f"a third of TAILRACE_DEADLINE_SECONDS ({deadline:g})"
            )
        source = "the argument PLATFORM" if serve else "WORKER_PLATFORMS"
        served = _served(platforms, tuple(serve) or env.words("WORKER_PLATFORMS"), source)
        return cls(
            platforms=served,
            owner=_owner(env.text("SERVICE_NAME") or (served[0] if len(served) == 1 else "consumer")),
            beat_seconds=beat,
            deadline_seconds=deadline,
            reap_seconds=reap,
            grace_seconds=env.number("TAILRACE_GRACE_SECONDS", 25.0),
            obey_seconds=env.number("TAILRACE_OBEY_SECONDS", 5.0),
            concurrency=env.whole("TAILRACE_CONCURRENCY", 0, least=1),
            handlers=handlers or env.text("TAILRACE_HANDLERS"),
            metrics_port=env.whole("TAILRACE_METRICS_PORT", 0, least=1, most=65535) or None,
            metrics_host=env.text("TAILRACE_METRICS_HOST") or "127.0.0.1",
        )


def _served(platforms: Platforms, names: tuple[str, ...], source: str) -> tuple[str, ...]:
    served = tuple(dict.fromkeys(p for name in names for p in platforms.serving(name)))
    unknown = [name for name in names if not platforms.serving(name)]
    if unknown:
        raise BadConfiguration(f"{source} names {', '.join(unknown)}; declared are {', '.join(platforms)}")
    return served or tuple(platforms)


def _owner(service: str) -> str:
    """Readable at night, and never the same twice: a name that came back could pass for one that fell silent.

    At most 18 characters of the service, 18 of the host, and 64 random bits. Every event of an attempt holds it, so it
    is short; `workers` tells the process id.
    """
    words = [
        re.sub(r"[^A-Za-z0-9_-]+", "-", part)[:18].strip("-") or "consumer" for part in (service, socket.gethostname())
    ]
    return f"{words[0]}.{words[1]}.{secrets.token_urlsafe(8)}"
