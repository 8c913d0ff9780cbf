"""Runs a handler without a store, as a consumer would: for tests of handlers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tailrace.consumers.attempts.outbound import Outbound
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.offload.dispatch import Offload
from tailrace.consumers.outcomes import failure_of
from tailrace.consumers.program.lifespans import Lifespans
from tailrace.consumers.registry import Handler
from tailrace.consumers.runner import ProcessContext, Runner
from tailrace.producers.declarations import Declared, plain
from tailrace.producers.flows import Flow
from tailrace.producers.producer import encode_args
from tailrace.streams.errors import WrongField
from tailrace.streams.flows.envelope import FlowNode, unseal
from tailrace.streams.flows.spawning import NewJob
from tailrace.streams.history.events import Event, event_body, read_body, read_members
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim, Failure, Job, encode
from tailrace.streams.operations import Operation
from tailrace.streams.options import Options
from tailrace.streams.policies import Policy
from tailrace.streams.process.histogram import SIZES, TRIPS, Histogram
from tailrace.streams.states import Status
from tailrace.streams.store.commit import Committer, Heard, Said

KEYS = PlatformKeys("testing")
KEY = "job"
NONCE = "nonce"

PATIENT = Policy()
TABLE = LeaseTable()  # here no heart reads it
OPENED = object()  # the lifespan is entered
FLOW = encode({"flow": True})  # the options of a job that carries its children


Work = Callable[[Any], Any]  # the stand-in for the handler of a child: args -> result


class BroughtJob(Struct, frozen=True):
    """A job that the attempt submitted or spawned."""

    id: str
    platform: str
    kind: str
    args: Any
    child: bool


class HandlerOutcome(Struct, frozen=True):
    """The end of an attempt, and what its consumer would do next."""

    status: Status
    """The status for clients: completed, retrying, failed, delayed, awaiting or cancelled; superseded: it is
    another's, or goes to the end of its queue."""
    result: Any = None
    """The result of a completed attempt, as decoded JSON."""
    error: Failure | None = None
    """The error of an attempt that is retrying or failed."""
    progress: tuple[Event, ...] = ()
    """Its reports in order, each step once."""
    steps: dict[str, Any] = {}
    """The saved values by name, as decoded JSON; pass them to the next attempt as `saved`."""
    brought: tuple[BroughtJob, ...] = ()
    """The jobs that it submitted and spawned, in order."""
    awaits: str | None = None
    """The reason of an awaiting attempt: `children`, or the name of the signal."""
    again_in_seconds: float | None = None
    """The time until the job would start again, if it would."""
    gave_up: bool = False
    """Whether it failed for good with attempts left: GiveUp, args or a result that do not fit, no handler."""

    @property
    def retried(self) -> bool:
        return self.status is Status.RETRYING


async def run_handler(
    handlers: Mapping[str, Handler],
    kind: str | Declared[Any] | Flow,
    args: Any = None,
    *,
    attempt: int = 1,
    failures: int = 0,
    policy: Policy = PATIENT,
    timeout_seconds: float | None = None,
    cancel_after: float | None = None,
    saved: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None,
    children: Mapping[str, Work] | None = None,
    state: Any = OPENED,
) -> HandlerOutcome:
    """One attempt at a job, with hooks, threads and processes as in a consumer; `kind` may be the handler itself, or a
    `Flow`: the job at the root of a tree, with the args of that, which gets its children first.

    `attempt` is its number and `failures` how many failed before it; `policy` decides what follows. With `cancel_after`
    the job is asked to stop after that many seconds: it ends cancelled, unless it was quicker. `saved` is what steps
    gave in earlier attempts, for `attempt` 2 and later: `steps` of the outcome before. `signals` are those that have
    come, by name: their data, or `TimeoutError` for one that did not come in time. `children` stand in for the handlers
    of children, by kind: each gets the args, and returns the result or raises; a child of another kind does not end.
    `state` stands in for what the lifespan of the handlers opens; without it the lifespan is entered and left. A
    handler in a process opens its own there: `state` is refused.
    """
    payload, options = encode({} if args is None else args), b""
    if isinstance(kind, Flow):
        if args is not None:
            raise ValueError("args: a Flow has its own")
        root = node_of(kind)
        kind, payload, options = root.kind, root.job(KEY).args, FLOW if root.children else b""
    elif not isinstance(kind, str):
        kind = kind.declaration.kind
    handler = handlers.get(kind)
    lifespan = handler.lifespan if handler else None
    if state is OPENED:
        lifespans = Lifespans([lifespan])
    elif handler and handler.run_in == "process":
        raise ValueError(f'state: the kind {kind} has run_in="process", and its lifespan opens the state there')
    else:
        lifespans = Lifespans.given(lifespan, state)
    if timeout_seconds is not None:
        policy = msgspec.structs.replace(policy, timeout_seconds=timeout_seconds)
    claim = Claim(NONCE, KEY, attempt, kind, payload, options, failures)
    stand_in = StandIn(claim, saved or {}, signals or {}, children or {})
    async with lifespans, Offload() as offload:
        process = ProcessContext("tester", handlers, offload, TABLE, lifespans, outbound=StandInOutbound(stand_in))
        runner = Runner(KEYS, 0, policy, process, stand_in, stand_in.left)
        runner.begin(claim)
        running = runner.running[NONCE]

        def cancel() -> None:
            stand_in.cancelling = True
            runner.stop(NONCE)

        timer = asyncio.get_running_loop().call_later(cancel_after, cancel) if cancel_after is not None else None
        try:
            outcome = await asyncio.shield(stand_in.outcome)
            seen = {"progress": tuple(stand_in.progress), "brought": tuple(stand_in.brought)}
            return msgspec.structs.replace(outcome, steps=stand_in.steps, **seen)
        finally:
            if timer:
                timer.cancel()
            if running.task:
                running.task.cancel()


class StandIn(Committer):
    """Takes the writes of one attempt, and answers as the store would."""

    behind = False  # it answers at once

    def __init__(
        self, claim: Claim, saved: Mapping[str, Any], signals: Mapping[str, Any], children: Mapping[str, Work]
    ) -> None:
        self.batches, self.trips = Histogram.over(SIZES), Histogram.over(TRIPS)
        self.cancelling = False
        self.steps = dict(saved)
        self.outcome: asyncio.Future[HandlerOutcome] = asyncio.get_running_loop().create_future()
        self._job = claim
        self._signals = signals
        self._children = children
        self._ends: dict[str, bytes] = {}  # of children, by id; empty: it does not end
        self.progress: list[Event] = []
        self.brought: list[BroughtJob] = []

    def say(self, operation: Operation, heard: Heard, times: float = 1, before: Said | None = None) -> None:
        if before:
            self.say(*before)
        said = operation.named
        if operation.name == "report":
            events = [event_of(event) for event in said["events"].split(b"\n")]
            room = max(0, int(said["most"]) - 2 - len(self.progress))  # `queued` and `started` count too
            self.progress += events if self.cancelling else events[:room]
            if self.cancelling:
                heard(b"cancelled")
            else:
                heard(b"shown" if len(events) <= room else b"full %d" % room)
        elif operation.name == "recall":
            heard([b"", *(part for name, value in self.steps.items() for part in (name.encode(), encode(value)))])
        elif operation.name in ("save", "checkpoint"):
            name, value = said["name"], said["value"]
            if operation.name == "checkpoint":
                self.steps.pop(name, None)
            held = sum(len(step.encode()) + len(encode(saved)) for step, saved in self.steps.items())
            if not self.cancelling and held + len(name.encode()) + len(value) > int(said["most"]):
                heard(b"full")
                return
            self.steps.setdefault(name, msgspec.json.decode(value))
            heard(b"cancelled" if self.cancelling else b"saved")
        elif operation.name == "join":
            heard(b"cancelled" if self.cancelling else [self._ends.get(each, b"?") for each in said["ids"].split()])
        elif operation.name == "wait" and not self.cancelling and (answer := self._there(said)):
            heard(answer)
        else:
            if not self.outcome.done():
                self.outcome.set_result(self._outcome(operation))
            heard(b"ok")

    def _there(self, said: Mapping[str, Any]) -> Any:
        """The answer of `wait` to an attempt that goes on; nothing when it has to wait."""
        if said["awaits"] == "join":
            return None  # a child that has not ended does not end here
        if said["place"] in self.steps:
            return [b"ready", b""] if said["awaits"] == "sleep" else b"timeout"
        given = self._signals.get(said["name"])
        if said["awaits"] == "signal" and given is TimeoutError:
            self.steps[said["place"]] = "timeout"
            return b"timeout"
        return [b"ready", encode(given)] if said["name"] in self._signals else None

    def bring(self, new: NewJob) -> bytes:
        """A job is submitted; a child ends at once, if its kind has a stand-in."""
        job = new.job
        args = msgspec.json.decode(bytes(unseal(job.args).args) if job.flow else job.args)
        self.brought.append(BroughtJob(job.id, job.platform, job.kind, args, new.child))
        if new.child:
            self._ends[job.id] = self._end(self._children[job.kind], args) if job.kind in self._children else b""
        return b"spawned"

    def _end(self, work: Work, args: Any) -> bytes:
        try:
            return event_body(1, Status.COMPLETED, "tester", result=work(args))
        except Exception as error:
            return event_body(1, Status.FAILED, "tester", error=failure_of(error))

    def left(self) -> None:
        """The attempt is over; one that lost its job says nothing more."""
        asyncio.get_running_loop().call_soon(self._unheard)

    def _unheard(self) -> None:
        if not self.outcome.done():
            self.outcome.set_result(HandlerOutcome(Status.SUPERSEDED))

    def _outcome(self, operation: Operation) -> HandlerOutcome:
        said = operation.named
        if self.cancelling:
            return HandlerOutcome(Status.CANCELLED)
        if operation.name == "complete":
            return HandlerOutcome(Status.COMPLETED, result=event_of(said["event"]).result)
        if operation.name == "delay":
            if self._job.number >= said["max_starts"]:
                circles = Failure("TooManyStarts", f"it was started {self._job.number} times and never ended")
                return HandlerOutcome(Status.FAILED, error=circles)
            return HandlerOutcome(Status.DELAYED, again_in_seconds=said["delay_ms"] / 1000)
        if operation.name == "wait":
            if said["awaits"] != "sleep":
                return HandlerOutcome(Status.AWAITING, awaits=said["name"] or "children")
            self.steps[said["place"]] = True  # the next attempt comes when it is over
            return HandlerOutcome(Status.DELAYED, again_in_seconds=said["delay_ms"] / 1000)
        if operation.name in ("release", "requeue"):
            return HandlerOutcome(Status.SUPERSEDED)
        error = read_members(said["more"])["error"]
        again = self._job.failures + 1 < said["attempts"] and self._job.number < said["max_starts"]
        return HandlerOutcome(
            Status.RETRYING if again else Status.FAILED,
            error=msgspec.convert(error, Failure),
            again_in_seconds=said["delay_ms"] / 1000 if again else None,
            gave_up=said["attempts"] == 0,
        )


class StandInOutbound(Outbound):
    """Takes the jobs that an attempt spawns or submits, for any platform."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    async def check(
        self, child: bool, platform: str, kind: str, jobs: Sequence[tuple[str, bytes]], options: dict[str, Any]
    ) -> list[NewJob]:
        told = Options(**options)
        if not all(isinstance(msgspec.json.decode(args), dict) for _, args in jobs):
            raise WrongField("args", "must be an object")
        return [NewJob(Job(platform, key, kind, args, told), "", child) for key, args in jobs]

    async def spawn(self, keys: PlatformKeys, claim: Claim, jobs: Sequence[NewJob], place: str) -> list[Any]:
        return [[self._stand_in.bring(new) for new in jobs]] if not self._stand_in.cancelling else [b"cancelled"]

    def ended(self, keys: PlatformKeys, claim: Claim, *, cancelled: bool, entry: str, event: bytes) -> None:
        """There is no other platform to deliver anything to."""


def node_of(flow: Flow) -> FlowNode:
    below = tuple(node_of(child) for child in flow.children)
    return FlowNode(flow.platform, flow.kind, Raw(encode_args(plain(flow.args))), flow.options, below)


def event_of(body: bytes) -> Event:
    return read_body(KEYS.id(KEY), body)
