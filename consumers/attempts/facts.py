"""What every handler may know of its attempt."""

from typing import Any, Generic, cast

from typing_extensions import TypeVar

from tailrace.streams.messages import Claim, Job
from tailrace.streams.options import handed_options

Args = TypeVar("Args")
Opened = TypeVar("Opened", default=Any)


class AttemptFacts(Generic[Args, Opened]):
    """What every handler may know of its attempt."""

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
        """Of the attempts before."""
        return self.claim.failures

    @property
    def fence(self) -> str:
        return self.claim.nonce

    @property
    def traceparent(self) -> str | None:
        """Of the span that submitted the job, as W3C Trace Context has it; None: the submission named none."""
        return handed_options(self.claim.options).traceparent

    def idempotency_key(self, name: str) -> str:
        """The same for every attempt at this job: hand it to the outside world to make a repeated call harmless."""
        return f"{self.job.id}/{name}"
