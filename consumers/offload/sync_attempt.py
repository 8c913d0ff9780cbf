"""One try at a job, as a handler that runs in a thread or a process of its own holds it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tailrace.streams.messages import Claim, Job, Step

Args = TypeVar("Args")

Tell = Callable[[Step, int | None, str | None, Any], None]


class SyncAttempt(Generic[Args]):
    """The same as `Attempt`, without `await`: each call waits until the store has answered."""

    __slots__ = ("_tell", "args", "failures", "fence", "job", "number", "worker")

    def __init__(self, job: Job, claim: Claim, args: Args, worker: str, tell: Tell) -> None:
        self.job = job
        self.number = claim.number
        self.failures = claim.failures  # of the attempts before
        self.fence = claim.nonce
        self.args = args
        self.worker = worker
        self._tell = tell

    def idempotency_key(self, name: str) -> str:
        """The same for every attempt at this job: hand it to the outside world to make a repeated call harmless."""
        return f"{self.job.id}/{name}"

    def progress(self, step: Step, of: int | None = None, message: str | None = None, data: Any = None) -> None:
        """Show a step to whoever watches. A second report of the same step by this attempt is not shown.

        Raises `Lost` when this attempt no longer owns its job, `Cancelled` when it has to stop: somebody asked for it,
        its time is up, or the consumer leaves.
        """
        self._tell(step, of, message, data)
