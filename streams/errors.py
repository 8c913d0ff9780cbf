"""Everything Tailrace itself can refuse or miss, as one tree of sentences.

    TailraceError
    ├── BadConfiguration       a setting is wrong; the process stops with exit code 78
    ├── StoreError
    │   ├── NoStore            no server takes commands at the address, or no address is known; exit code 69
    │   │   └── AnswerLost     a command was sent and its answer never came: it may have been carried out
    │   │       └── NotReplicated   it was carried out, and too few replicas have it: a failover may lose it
    │   ├── UnfitStore         a server answers, but jobs would not be safe there; exit code 78 at the start
    │   ├── AccessDenied       the store refuses our credentials or one of our commands; exit code 78 at the start
    │   └── StoreFull          the store refuses new work until memory is freed
    ├── Refused                a job that cannot be accepted as it was asked for
    │   ├── WrongField         a value is wrong: `field` names it
    │   ├── Forbidden          the caller may not use this platform
    │   └── OtherBody          the same job id was already accepted with another body
    ├── JobNotFound            no job of that id is kept
    ├── WrongState             the job is in a state in which this cannot be done to it
    ├── JobFailed              the job whose result is awaited has failed
    ├── JobCancelled           the job whose result is awaited was cancelled
    ├── NoConsumer             no consumer serves the platform
    ├── WorkerShared           a consumer of the platform serves one that the caller may not use
    ├── ScheduleNotFound       no schedule of that name is kept
    ├── Cancelled              the job was asked to stop while it ran
    └── Lost                   the fence refused a write: a newer attempt owns the job, or it has ended

What a handler raises to steer its job (Delay, ...) is not an error and lives in `consumers.outcomes`.
"""

import reprlib

SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 60


class TailraceError(Exception):
    """The root: catch this to catch everything Tailrace raises by itself."""


class BadConfiguration(TailraceError):
    """A setting is wrong; the sentence names it and what it may be."""


class StoreError(TailraceError):
    """The store cannot be used now, or its address or setup is wrong.

    `job_ids`: the jobs of a submission that may have been accepted although the call failed, in the order of the
    submission (None: refused). To submit one of them again under the same key is safe.
    """

    job_ids: tuple[str | None, ...] = ()


class NoStore(StoreError):
    """No server takes commands at the address: it is unreachable, not ready, or a read-only replica now."""


class AnswerLost(NoStore):
    """The command was sent and the link ended before its answer came: it may or may not have been carried out."""


class NotReplicated(AnswerLost):
    """The command was carried out, and too few replicas confirmed that in time: a failover may lose it."""


class UnfitStore(StoreError, BadConfiguration):
    """The server would lose jobs: it evicts keys, is too old, or runs in cluster mode."""


class AccessDenied(StoreError, BadConfiguration):
    """The server refuses our credentials, our database, or one of our commands.

    At the start this is a wrong setting. Later it is an outage: new credentials may reach the server first or the
    processes first, so a process that has started well tries again until the server accepts it.
    """


class StoreFull(StoreError):
    """The server has no memory for new work; running jobs still end."""


class Refused(TailraceError):
    """The job was not accepted, and nothing of it was stored."""


class WrongField(Refused):
    """One value of a submission is wrong."""

    def __init__(self, field: str, reason: str, *given: object) -> None:
        """`given`: the wrong value, when the sentence is to end with it; only its beginning is shown."""
        reason += "".join(f", not {SHORT.repr(value)}" for value in given)
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class Forbidden(Refused):
    """The caller may not use this platform."""


class OtherBody(Refused):
    """The id is taken by a job with another kind, other args or other options."""

    def __init__(self, job_id: str, named_by: str = "id") -> None:
        """`named_by`: the field or header that carried the id."""
        super().__init__(f"job {job_id} was already accepted with another body; choose another {named_by}")
        self.job_id = job_id


class ScheduleNotFound(TailraceError):
    """No schedule of this name is kept on this platform."""

    def __init__(self, platform: str, name: str) -> None:
        super().__init__(f"platform {platform} has no schedule {name}")
        self.platform = platform
        self.name = name


class JobNotFound(TailraceError):
    """There is no job of this id: it never existed, or its retention has passed."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id}, or it is no longer kept")
        self.job_id = job_id


class WrongState(TailraceError):
    """The job is in a state in which this cannot be done to it; nothing was changed."""

    def __init__(self, job_id: str, state: str, why: str) -> None:
        ended = "has ended" if state in {"completed", "failed", "cancelled"} else "has not ended"
        super().__init__(f"job {job_id} {ended}: it is {state}, and {why}")
        self.job_id = job_id
        self.state = state
        self.why = why


class JobFailed(TailraceError):
    """The job has failed for good: the type, message and traceback of its last error."""

    def __init__(self, job_id: str, attempt: int, error_type: str, message: str, traceback: str | None = None) -> None:
        super().__init__(f"job {job_id} failed in attempt {attempt}: {error_type}: {message}")
        self.job_id = job_id
        self.attempt = attempt
        self.error_type = error_type
        self.message = message
        self.traceback = traceback


class JobCancelled(TailraceError):
    """The job was cancelled; `by` and `reason` say who asked and why, if they are known."""

    def __init__(self, job_id: str, by: str | None = None, reason: str | None = None) -> None:
        super().__init__(f"job {job_id} was cancelled{f' by {by}' if by else ''}{f': {reason}' if reason else ''}")
        self.job_id = job_id
        self.by = by
        self.reason = reason


class NoConsumer(TailraceError):
    """No consumer serves this platform now."""

    def __init__(self, platform: str) -> None:
        super().__init__(f"no consumer serves {platform}")
        self.platform = platform


class WorkerShared(TailraceError):
    """A consumer of this platform serves others too, which the caller may not use."""

    def __init__(self, platform: str) -> None:
        super().__init__("a worker of this platform serves others too, which this key is not for")
        self.platform = platform


class Cancelled(TailraceError):
    """The job was asked to stop: it ends cancelled, even if its handler returns a result."""

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} of job {job_id} is asked to stop")
        self.job_id = job_id
        self.attempt = attempt


class Lost(TailraceError):
    """This attempt no longer owns its job: the store refuses all its writes."""

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} of job {job_id} no longer owns it")
        self.job_id = job_id
        self.attempt = attempt
