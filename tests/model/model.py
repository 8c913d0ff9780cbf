"""What must be: a platform and its jobs as plain Python, told only by the promises."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streams.keys import BANDS
from streams.messages import Step
from streams.states import State, Status

Told = tuple[int | None, Status, Step | None]  # attempt, status, step: what a client must see
Opened = tuple[str, str, int]  # nonce, key, attempt: what a claim must give

NOT_READ = -1


@dataclass
class ModelJob:
    """One job as it must be."""

    key: str
    body: str
    band: str
    place: int  # in the order of acceptance
    state: State = State.WAITING
    attempt: int = 0
    nonce: str | None = None  # of the attempt that runs it, or that brought it where it is
    owner: str | None = None
    crashes: int = 0
    reported: int = 0
    goes_first: bool = False
    apart: bool = False  # it runs on its last chance: its owner runs no other such job
    told: list[Told] = field(default_factory=lambda: [(None, Status.QUEUED, None)])

    @property
    def running(self) -> bool:
        return self.state is State.RUNNING

    def tell(self, status: Status, step: Step | None = None) -> None:
        self.told.append((self.attempt or None, status, step))

    def refusal(self, nonce: str, goal: State | None) -> str | None:
        """The fence: why a write under this nonce is refused, or None when it is not."""
        if nonce != self.nonce:
            return "lost"
        if not self.running:
            return "again" if self.state is goal else "lost"
        return None


class ModelPlatform:
    """One platform as it must be. A method is a transition: it changes the model and returns the right answer."""

    def __init__(self, overall: int, max_crashes: int) -> None:
        self.overall = overall
        self.max_crashes = max_crashes
        self.jobs: dict[str, ModelJob] = {}
        self.beats: dict[str, int] = {}
        self.read_to = dict.fromkeys(BANDS, NOT_READ)  # the group of a band has handed out the line up to this place

    def running(self) -> dict[str, ModelJob]:
        return {job.nonce: job for job in self.jobs.values() if job.running and job.nonce}

    def line(self, band: str) -> list[ModelJob]:
        """Who stands in the line of a band: everyone who has not ended, in the order of acceptance."""
        return [job for job in self.jobs.values() if job.band == band and not job.state.ended]

    def counter(self, owner: str) -> str:
        return str(self.beats.get(owner, ""))

    def submit(self, key: str, body: str, band: str) -> list[str]:
        known = self.jobs.get(key)
        if known is None:
            self.jobs[key] = ModelJob(key, body, band, len(self.jobs))
            return ["accepted", "waiting"]
        return ["again", known.state.value] if (known.body, known.band) == (body, band) else ["conflict"]

    def claim(self, owner: str, nonces: Sequence[str]) -> list[Opened]:
        running = self.running()
        given = [(nonce, running[nonce].key, running[nonce].attempt) for nonce in nonces if nonce in running]
        free = [nonce for nonce in nonces if nonce not in running]
        room = len(free) if not self.overall else min(len(free), self.overall - len(running))
        taken = self._take(owner, room)
        for nonce, job in zip(free, taken, strict=False):
            job.state, job.nonce, job.owner = State.RUNNING, nonce, owner
            job.attempt, job.reported, job.goes_first = job.attempt + 1, 0, False
            job.tell(Status.STARTED)
            given.append((nonce, job.key, job.attempt))
        return given

    def _take(self, owner: str, room: int) -> list[ModelJob]:
        """Recovered jobs first, then band by band, each in the order of acceptance."""
        taken: list[ModelJob] = []
        apart = any(job.apart and job.owner == owner for job in self.running().values())
        for job in self.jobs.values():
            last_chance = 0 < job.crashes == self.max_crashes - 1
            if job.goes_first and len(taken) < room and not (last_chance and apart):
                taken.append(job)
                job.apart = last_chance
                apart = apart or last_chance
        for band in BANDS:
            while len(taken) < room:
                unread = [job for job in self.line(band) if job.place > self.read_to[band]]
                if not (batch := unread[: room - len(taken)]):
                    break
                self.read_to[band] = batch[-1].place
                waiting = [job for job in batch if job.state is State.WAITING and job not in taken]
                for job in waiting:
                    job.apart = False
                taken += waiting
        return taken

    def report(self, key: str, nonce: str, number: int) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, None):
            return refusal
        if number <= job.reported:
            return "again"
        job.reported = number
        job.tell(Status.PROGRESS, number)
        return "shown"

    def end(self, key: str, nonce: str, state: State) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, state):
            return refusal
        job.state = state
        job.tell(Status(state.value))
        return "ok"

    def release(self, key: str, nonce: str) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, State.WAITING):
            return refusal
        self._back_in_line(job)
        return "ok"

    def reclaim(self, key: str, nonce: str, owner: str, counter: str) -> str:
        job = self.jobs[key]
        if not job.running or job.nonce != nonce:
            return "gone"
        if counter != self.counter(owner):
            return "alive"
        job.nonce = None
        job.crashes += 1
        if job.crashes < self.max_crashes:
            self._back_in_line(job)
            return "reclaimed"
        job.state = State.FAILED
        job.tell(Status.FAILED)
        return "failed"

    def _back_in_line(self, job: ModelJob) -> None:
        job.state = State.WAITING
        job.goes_first = job.place <= self.read_to[job.band]  # else it is still to come, as old as it is
        job.tell(Status.SUPERSEDED)

    def cancel(self, key: str) -> str:
        job = self.jobs[key]
        if job.state is not State.WAITING:
            return {State.CANCELLED: "again", State.RUNNING: "running"}.get(job.state, "ended")
        job.state, job.goes_first = State.CANCELLED, False
        job.tell(Status.CANCELLED)
        return "ok"

    def beat(self, owner: str, held: Iterable[str]) -> tuple[set[str], set[tuple[str, str]]]:
        self.beats[owner] = self.beats.get(owner, 0) + 1
        running, mine = self.running(), set(held)
        owned = {(job.key, nonce) for nonce, job in running.items() if job.owner == owner}
        return mine - running.keys(), {(key, nonce) for key, nonce in owned if nonce not in mine}

    def bury(self, owner: str, counter: str) -> str:
        if counter != self.counter(owner):
            return "alive"
        if any(job.owner == owner for job in self.running().values()):
            return "holds"
        self.beats.pop(owner, None)
        return "buried"

    def destroy_groups(self) -> None:
        """The lines are read from their beginning again; nobody goes first any more, the oldest stand there anyway."""
        self.read_to = dict.fromkeys(BANDS, NOT_READ)
        for job in self.jobs.values():
            job.goes_first = False
