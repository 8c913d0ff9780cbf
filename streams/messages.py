"""What travels between the rooms and through the store: frozen structs, new fields always with a default."""

from typing import Any

import msgspec
from msgspec import Struct

from streams.states import State, Status

Step = int | str


class Job(Struct, frozen=True):
    """What was asked, once."""

    platform: str
    key: str
    kind: str
    args: bytes  # JSON, as it was checked and encoded again at the door
    band: str = "normal"

    @property
    def id(self) -> str:
        return f"{self.platform}.{self.key}"


class Claim(Struct, frozen=True, gc=False):
    """A job as `claim` hands it out: the attempt is open, and `nonce` is its fence."""

    nonce: str
    key: str
    number: int
    kind: str
    args: bytes


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why an attempt or a job failed, as a client sees it."""

    type: str
    message: str
    traceback: str | None = None


class Event(Struct, frozen=True, omit_defaults=True):
    """One entry of a job's history. The log holds its JSON; a client gets these very bytes."""

    id: str
    seq: int
    time: str
    jobId: str  # the seeds' clients read these names
    attempt: int | None
    status: Status
    step: Step | None
    workerId: str | None
    of: int | None = None
    message: str | None = None
    data: Any = None
    result: Any = None
    error: Failure | None = None
    reason: str | None = None


class Record(Struct, frozen=True):
    """A job as its record tells it; times are the store's, in milliseconds."""

    platform: str
    key: str
    state: State
    kind: str
    entry: str
    accepted_ms: int
    fingerprint: str
    band: str = "normal"
    seq: int = 1
    attempt: int = 0
    nonce: str | None = None
    owner: str | None = None
    crashes: int = 0
    progress: float | None = None
    started_ms: int | None = None
    ended_ms: int | None = None

    @property
    def id(self) -> str:
        return f"{self.platform}.{self.key}"


class Lease(Struct, frozen=True, gc=False):
    """The right to run one job: who has it, and after how much silence it counts as lost."""

    nonce: str
    key: str
    band: str
    entry: str
    owner: str
    deadline_seconds: float


class Look(Struct, frozen=True):
    """What an observer sees of one platform at one moment."""

    beats: dict[str, str]  # owner -> beat counter
    leases: tuple[Lease, ...]


class Hint(Struct, frozen=True, gc=False):
    """The live feed's word that a job has an event; `event` is None when it is too large to travel twice."""

    key: str
    seq: int
    event: bytes | None


decode_event = msgspec.json.Decoder(Event).decode
encode = msgspec.json.Encoder().encode


def event_tail(
    job_id: str, attempt: int | None, status: str, step: Step | None, worker: str | None, **more: Any
) -> bytes:
    """All of an event but `id`, `seq` and `time`, which the store puts in front when it is written."""
    return encode({"jobId": job_id, "attempt": attempt, "status": status, "step": step, "workerId": worker, **more})[1:]
