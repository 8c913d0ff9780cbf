"""What must be of flows: jobs that spawn, wait and join, on platforms that talk by outboxes, as plain Python."""

from dataclasses import dataclass, field
from typing import Literal

from tailrace.streams.states import State, Status

PENDING = "pending"
ENDS = {State.COMPLETED: "completed", State.FAILED: "failed", State.CANCELLED: "cancelled"}


@dataclass
class FlowModelJob:
    """One job as it must be."""

    id: str
    parent: str | None = None
    state: State = State.WAITING
    attempt: int = 0
    nonce: str | None = None
    asked: bool = False
    error: str | None = None
    children: dict[str, str] = field(default_factory=dict)  # id -> PENDING or how it ended
    marks: dict[str, str] = field(default_factory=dict)  # id -> the join that wants, or wanted it
    join: str | None = None
    fails: bool = False  # the first child that does not complete ends the join
    has_failed: bool = False  # one that this join wanted did not
    earlier: int | None = None  # attempts of the lives before
    awaits: tuple[str, ...] = ()
    steps: dict[str, str] = field(default_factory=dict)
    signals: set[str] = field(default_factory=set)
    told: list[Status] = field(default_factory=lambda: [Status.QUEUED])

    @property
    def platform(self) -> str:
        return self.id.partition(".")[0]

    @property
    def wanted(self) -> int:
        return sum(mark == self.join and self.children[child] == PENDING for child, mark in self.marks.items())

    @property
    def retried(self) -> bool:
        return self.earlier is not None and self.attempt == self.earlier + 1


Kind = Literal["submit", "arrive", "cancel"]
Parcel = tuple[Kind, str, str, str]  # kind, parent, child, how it ended


class FlowModel:
    """All platforms. A method is a transition: it changes the model and returns the right answer."""

    def __init__(self, platforms: tuple[str, ...]) -> None:
        self.jobs: dict[str, FlowModelJob] = {}
        self.outboxes: dict[str, list[Parcel]] = {platform: [] for platform in platforms}

    def fence(self, job: FlowModelJob, nonce: str) -> str | None:
        if job.state is not State.RUNNING or job.nonce != nonce:
            return "lost"
        return "cancelled" if job.asked else None

    def spawn(self, job: FlowModelJob, nonce: str, ids: list[str]) -> str | list[str]:
        if refusal := self.fence(job, nonce):
            return refusal
        answered = ("completed", PENDING) if job.retried else ("completed", "failed", "cancelled", PENDING)
        fresh = [child for child in ids if job.children.get(child) not in answered]
        for child in fresh:
            job.children[child] = PENDING
            job.marks.pop(child, None)
            if not child.startswith(f"{job.platform}."):
                self.outboxes[job.platform].append(("submit", job.id, child, ""))
            elif child not in self.jobs:
                self.jobs[child] = FlowModelJob(child, job.id)
            elif self.jobs[child].state.ended:
                self.arrive(job.id, child, ENDS[self.jobs[child].state])
        return ["spawned" if child in fresh else "again" for child in ids]

    def join_page(self, job: FlowModelJob, nonce: str, number: str, ids: list[str]) -> str | list[str]:
        if refusal := self.fence(job, nonce):
            return refusal
        job.has_failed = job.has_failed and job.join == number
        job.join = number
        for child in ids:
            if job.children[child] == PENDING:
                job.marks[child] = number
        return ["" if job.children[child] == PENDING else job.children[child] for child in ids]

    def wait(self, job: FlowModelJob, nonce: str, what: tuple[str, ...], *, fails: bool = False) -> str:
        """`what` is `join <number>`, `signal <name> <place>` or `sleep <place>`."""
        if job.nonce == nonce and job.state in (State.AWAITING, State.DELAYED, State.WAITING):
            return "again"
        if refusal := self.fence(job, nonce):
            return refusal if refusal == "lost" else self.end(job, State.CANCELLED)
        if what[0] == "join":
            if job.join != what[1] or job.wanted == 0 or (fails and job.has_failed):
                return "ready"
        elif what[-1] in job.steps:
            return "ready" if what[0] == "sleep" else "timeout"
        elif what[0] == "signal" and what[1] in job.signals:
            return "ready"
        job.state = State.DELAYED if what[0] == "sleep" else State.AWAITING
        job.awaits, job.fails = what, fails
        job.told.append(Status.DELAYED if what[0] == "sleep" else Status.AWAITING)
        return "ok"

    def signal(self, job: FlowModelJob, name: str) -> str:
        if job.state.ended:
            return job.state.value
        if name in job.signals:
            return "again"
        job.signals.add(name)
        if job.state is State.AWAITING and job.awaits[:2] == ("signal", name):
            self.go_on(job)
            return "delivered"
        return "kept"

    def go_on(self, job: FlowModelJob) -> None:
        job.state, job.awaits = State.WAITING, ()

    def time_is_over(self, job: FlowModelJob) -> None:
        """Of a sleep, or of a signal that did not come."""
        if job.awaits[0] != "join":
            job.steps[job.awaits[-1]] = "true" if job.awaits[0] == "sleep" else '"timeout"'
        self.go_on(job)

    def save(self, job: FlowModelJob, nonce: str, name: str, value: str) -> str:
        if refusal := self.fence(job, nonce):
            return refusal
        return "again" if job.steps.setdefault(name, value) != value else "saved"

    def checkpoint(self, job: FlowModelJob, nonce: str, name: str, value: str) -> str:
        if refusal := self.fence(job, nonce):
            return refusal
        job.steps[name] = value
        return "saved"

    def complete(self, job: FlowModelJob, nonce: str) -> str:
        if job.nonce == nonce and job.state is State.COMPLETED:
            return "again"
        if refusal := self.fence(job, nonce):
            return refusal if refusal == "lost" else self.end(job, State.CANCELLED)
        self.end(job, State.COMPLETED)
        return "ok"

    def fail(self, job: FlowModelJob, nonce: str, error: str) -> str:
        if job.nonce == nonce and job.state in (State.FAILED, State.DELAYED):
            return "again"
        if refusal := self.fence(job, nonce):
            return refusal if refusal == "lost" else self.end(job, State.CANCELLED)
        job.error = error
        return self.end(job, State.FAILED)

    def reclaim(self, job: FlowModelJob, nonce: str) -> str:
        if job.state is not State.RUNNING or job.nonce != nonce:
            return "gone"
        job.nonce = None
        if job.asked:
            return self.end(job, State.CANCELLED)
        job.state = State.WAITING
        job.told.append(Status.SUPERSEDED)
        return "reclaimed"

    def cancel(self, job: FlowModelJob) -> str:
        if job.state.ended:
            return "again" if job.state is State.CANCELLED else job.state.value
        if job.state is State.RUNNING:
            if not job.asked:
                job.told.append(Status.CANCELLING)
            job.asked = True
            return "cancelling"
        self.end(job, State.CANCELLED)
        return "ok"

    def end(self, job: FlowModelJob, state: State) -> str:
        job.state, job.awaits = state, ()
        job.told.append(Status(state.value))
        if state is State.CANCELLED and job.children:
            self.outboxes[job.platform].append(("cancel", job.id, "", ""))
        self.tell_parent(job, ENDS[state])
        return state.value

    def tell_parent(self, job: FlowModelJob, news: str) -> None:
        if job.parent is None:
            return
        if job.parent.startswith(f"{job.platform}."):
            self.arrive(job.parent, job.id, news)
        else:
            self.outboxes[job.platform].append(("arrive", job.parent, job.id, news))

    def arrive(self, parent: str, child: str, news: str) -> None:
        """The first end counts, and wakes a parent once."""
        job = self.jobs[parent]
        if news == "reopened":
            self.revive(job, child)
        elif job.children[child] == PENDING:
            job.children[child] = news
            wanted = child in job.marks and job.marks[child] == job.join
            job.has_failed = job.has_failed or (wanted and news != "completed")
            wants = wanted and job.state is State.AWAITING and job.awaits[0] == "join"
            if wants and (job.wanted == 0 or (job.fails and news != "completed")):
                self.go_on(job)

    def revive(self, job: FlowModelJob, child: str) -> None:
        if job.children[child] == PENDING:
            return
        if job.state is State.FAILED and job.error == "ChildFailed":
            job.children[child] = PENDING
            self.reopen(job)
            job.marks = {**job.marks, child: "0"}
            job.state, job.awaits, job.join, job.fails = State.AWAITING, ("join", "0"), "0", True
        elif job.state is State.AWAITING:
            job.children[child] = PENDING
            job.marks.pop(child, None)

    def reopen(self, job: FlowModelJob) -> str:
        if job.state not in (State.FAILED, State.CANCELLED):
            return job.state.value
        job.state, job.nonce, job.asked, job.error, job.join = State.WAITING, None, False, None, None
        job.has_failed, job.earlier = False, job.attempt or job.earlier
        job.told.append(Status.REOPENED)
        self.tell_parent(job, "reopened")
        return "ok"

    def deliver(self, platform: str, *, removed: bool = True) -> int:
        """What the outbox holds reaches the other platforms, once however often it is delivered."""
        if not removed:
            self._carry(list(self.outboxes[platform]), set())
            return 0
        count, reached = 0, {platform}
        while reached:
            here = reached.pop()
            while parcels := self.outboxes[here]:
                self.outboxes[here] = []
                count += len(parcels)
                self._carry(parcels, reached)
        return count

    def _carry(self, parcels: list[Parcel], reached: set[str]) -> None:
        for kind, parent, child, news in sorted(
            parcels, key=lambda parcel: ("submit", "arrive", "cancel").index(parcel[0])
        ):
            if kind == "submit" and child not in self.jobs:
                self.jobs[child] = FlowModelJob(child, parent)
            elif kind == "submit" and self.jobs[child].state.ended:
                self.arrive(parent, child, ENDS[self.jobs[child].state])
            elif kind == "arrive":
                self.arrive(parent, child, news)
                if news == "reopened":
                    reached.add(parent.partition(".")[0])
            elif kind == "cancel":
                for each in [each for each, known in self.jobs[parent].children.items() if known == PENDING]:
                    self.cancel(self.jobs[each])
                    reached.add(self.jobs[each].platform)
