"""Messages between processes, and as the store keeps them: frozen structs; new fields always have a default."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tailrace.streams.options import NO_OPTIONS, Options
from tailrace.streams.states import State

Step = int | str


class Job(Struct, frozen=True):
    """A job as it was submitted."""

    platform: str
    key: str
    kind: str
    args: bytes  # JSON, checked and encoded again when the job was submitted
    options: Options = NO_OPTIONS
    flow: bool = False  # its args are in an envelope with its children

    @property
    def extras(self) -> str:
        """The options in the form that `submit` takes."""
        return self.options.extras(flow=self.flow)

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
    options: bytes = b""  # what the submission said of attempts and times, JSON
    failures: int = 0  # of the attempts before
    age_seconds: float = 0.0  # since the first of them
    waited_seconds: float | None = None  # since it was accepted; None: it was started, or put off, before


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why an attempt or a job failed, as a client sees it."""

    type: str
    message: str
    traceback: str | None = None
    child: str | None = None  # the job below it whose failure this is


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
    seq: int = 1  # of the last event before the job last came into the queue
    attempt: int = 0
    nonce: str | None = None
    owner: str | None = None
    failures: int = 0
    crashes: int = 0
    earlier: int = 0  # attempts of the lives before it was last reopened
    started: str | None = None  # the id of the event `started` of the last attempt
    ended_ms: int | None = None
    accepted: str | None = None  # the first entry of a job that has another by now
    first_ms: int | None = None  # when it was first started, once it has been started twice
    rest_ms: int | None = None  # how long its last wait was to be; not of one that was given as a point in time
    options: str | None = None
    marks: str | None = None
    dedupe: str | None = None
    cancel: str | None = None
    step_bytes: int = 0  # of all its steps, names and values
    error: str | None = None  # the type of the error of a failed job
    awaits: str | None = None  # `join`, `signal <name> <place>` or, while it is delayed, `sleep <place>`
    until_ms: int | None = None  # when it goes on although what it awaits has not come
    join: str | None = None  # the number of its last join
    wanted: int = 0  # children that this join still needs
    join_fails: int = 0  # 1: the first of them that does not complete ends the join
    join_failed: int = 0  # 1: one of them did not

    @property
    def started_ms(self) -> int | None:
        return int(self.started.partition("-")[2][:13]) if self.started else None

    @property
    def id(self) -> str:
        return f"{self.platform}.{self.key}"


class Lease(Struct, frozen=True, gc=False):
    """The right to run one job: its owner, and the time without a beat after which it counts as lost."""

    nonce: str
    key: str
    band: str
    entry: str
    owner: str
    deadline_seconds: float
    marks: str = ""


class BeatReply(Struct, frozen=True):
    """The store's answer to a beat on a platform."""

    lost: list[str]  # nonces its consumer runs and no longer owns
    stray: list[tuple[str, str]]  # key and nonce of jobs its consumer owns and did not name
    stop: list[str]  # nonces of attempts that are asked to stop
    restarts: int  # how often a restart of the platform's consumers was asked for


class Sweep(Struct, frozen=True):
    """One look for jobs that no list names."""

    cursor: str  # where the next page begins; empty: at the beginning again
    owners: int  # how many consumers beat on the platform
    mended: list[str]  # keys of the jobs that were put right


class RefusedWrites(Struct, frozen=True):
    """The writes of an attempt that the fence refused, as its consumer counted them."""

    job_id: str
    attempt: int
    writes: int


class About(Struct, frozen=True, omit_defaults=True):
    """Facts that a consumer reports about itself with its beats. No decision about a job depends on them."""

    host: str | None = None
    pid: int | None = None
    version: str | None = None
    started_at: str | None = None
    deadline_seconds: Annotated[float, Meta(gt=0)] | None = None  # after this long without a beat it counts as lost
    memory_bytes: int | None = None
    lag_seconds: float | None = None  # the longest time its loop was blocked, in the last seconds
    refused: tuple[RefusedWrites, ...] = ()


class Hint(Struct, frozen=True, gc=False):
    """An entry of the live feed: a job has an event. `event` is None when it is too large for the feed."""

    key: str
    seq: int
    event: bytes | None


def plain_model(value: Any) -> Any:
    """A pydantic model as JSON has it; msgspec asks for types that it does not know. Raises `TypeError` for others."""
    if hasattr(type(value), "__pydantic_serializer__"):  # pydantic itself is never imported here
        return value.model_dump(mode="json")
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


encode = msgspec.json.Encoder(enc_hook=plain_model).encode


class OfType(Struct, frozen=True):
    """The failed jobs with one type of error: how many, and the key of the one that failed last."""

    type: str
    count: int
    newest: str


class Errors(Struct, frozen=True):
    """How many failed jobs a platform keeps, and those of each type of error, by its name."""

    failed: int
    types: tuple[OfType, ...]
