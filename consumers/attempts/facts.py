"""Facts about an attempt that every handler can read."""

from typing import Any, Generic, cast

from typing_extensions import TypeVar

from tailrace.streams.messages import Claim, Job
from tailrace.streams.options import handed_options

Args = TypeVar("Args")
Opened = TypeVar("Opened", default=Any)


class AttemptFacts(Generic[Args, Opened]):
    """Facts about an attempt that every handler can read."""

    __slots__ = ("args", "claim", "job", "state", "worker")

    def __init__(self, job: Job, claim: Claim, args: Args, worker: str) -> None:
        self.job = job
        self.claim = claim
        self.args = args
        self.worker = worker
        self.state = cast(Opened, None)  # what `Handlers(lifespan=…)` opened in this process

    @property
    def number(self) -> int:
        return self.claim.number

    @property
    def failures(self) -> int:
        """How many attempts before this one have failed."""
        return self.claim.failures

    @property
    def fence(self) -> str:
        return self.claim.nonce

    @property
    def traceparent(self) -> str | None:
        """The W3C `traceparent` of the span that submitted the job; None: the submission named none."""
        return handed_options(self.claim.options).traceparent

    def idempotency_key(self, name: str) -> str:
        """A key that is the same in every attempt at this job: with it, other systems recognise a repeated call."""
        return f"{self.job.id}/{name}"
