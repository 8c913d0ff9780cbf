"""What must be: a platform and its jobs as plain Python, told only by the promises."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.streams.keys import BANDS
from tailrace.streams.messages import Step
from tailrace.streams.states import State, Status

Told = tuple[int | None, Status, Step | None]  # attempt, status, step: what a client must see
Opened = tuple[str, str, int]  # nonce, key, attempt: what a claim must give

NOT_READ = -1


@dataclass
class ModelJob:
    """One job as it must be."""

    key: str
    body: str
    band: str
    place: int  # in the order of acceptance, or of its last return from an end
    state: State = State.WAITING
    attempt: int = 0
    nonce: str | None = None  # of the attempt that runs it, or that brought it where it is
    owner: str | None = None
    failures: int = 0
    crashes: int = 0
    earlier: int = 0  # attempts of the lives before
    lives: int = 1
    reported: int = 0
    goes_first: bool = False
    unfinished: bool = False  # in strict order: it waits for another attempt
    held: bool = False  # its entry pends although nobody has read the line that far
    acknowledged: bool = False  # somebody did so by hand: its entry pends nowhere until a transition holds it again
    due: bool = False  # it rests, and its time has come
    asked: bool = False  # somebody asked its attempt to stop
    aside: bool = False  # it waits on its last chance, for a process that runs nothing else
    alone: bool = False  # it runs so
    told: list[Told] = field(default_factory=lambda: [(None, Status.QUEUED, None)])

    @property
    def running(self) -> bool:
        return self.state is State.RUNNING

    def tell(self, status: Status, step: Step | None = None) -> None:
        self.told.append((self.attempt or None, status, step))

    def refusal(self, nonce: str, *goals: State) -> str | None:
        """The fence: why a write under this nonce is refused, or None when it is not."""
        if nonce != self.nonce:
            return "lost"
        if not self.running:
            return "again" if self.state in goals else "lost"
        return None

    def end(self, state: State) -> str:
        self.state, self.goes_first, self.due, self.unfinished = state, False, False, False
        self.aside = False
        self.tell(Status(state.value))
        return state.value

    def rest(self, status: Status, due: bool) -> None:
        self.state, self.due, self.acknowledged = State.DELAYED, due, False
        self.tell(status)


class ModelPlatform:
    """One platform as it must be. A method is a transition: it changes the model and returns the right answer."""

    def __init__(self, max_running: int, max_crashes: int, max_starts: int) -> None:
        self.max_running = max_running
        self.strict = False  # nothing starts before a job that waits for another attempt
        self.max_crashes = max_crashes
        self.max_starts = max_starts
        self.jobs: dict[str, ModelJob] = {}
        self.places = 0
        self.beats: dict[str, int] = {}
        self.read_to = dict.fromkeys(BANDS, NOT_READ)  # the group of a band has handed out the line up to this place

    def running(self) -> dict[str, ModelJob]:
        return {job.nonce: job for job in self.jobs.values() if job.running and job.nonce}

    def in_order(self) -> list[ModelJob]:
        return sorted(self.jobs.values(), key=lambda job: job.place)

    def line(self, band: str) -> list[ModelJob]:
        """Who stands in the line of a band: everyone who has not ended, in order."""
        return [job for job in self.in_order() if job.band == band and not job.state.ended]

    def handed_out(self, job: ModelJob) -> bool:
        return job.held or job.place <= self.read_to[job.band]

    def pends(self, job: ModelJob) -> bool:
        return self.handed_out(job) and not job.acknowledged

    def may_start(self) -> bool:
        """Whether any consumer with a free slot could start a job now."""
        unfinished = [job for job in self.jobs.values() if job.unfinished]
        waiting = [job for job in unfinished or self.jobs.values() if job.state is State.WAITING]
        return any(not self.last_chance(job) for job in waiting) and not 0 < self.max_running <= len(self.running())

    def last_chance(self, job: ModelJob) -> bool:
        return 0 < job.crashes == self.max_crashes - 1

    def counter(self, owner: str) -> str:
        return str(self.beats.get(owner, ""))

    def _next_place(self) -> int:
        self.places += 1
        return self.places - 1

    def submit(self, key: str, body: str, band: str, *, delayed: bool = False) -> list[str]:
        known = self.jobs.get(key)
        if known is None:
            job = self.jobs[key] = ModelJob(key, body, band, self._next_place())
            if delayed:
                job.held = True
                job.rest(Status.DELAYED, due=False)
            return ["accepted", job.state.value]
        return ["again", known.state.value] if (known.body, known.band) == (body, band) else ["conflict"]

    def wake(self) -> int:
        woken = [job for job in self.jobs.values() if job.due]
        for job in woken:
            job.state, job.due, job.goes_first = State.WAITING, False, True
        return len(woken)

    def claim(self, owner: str, nonces: Sequence[str]) -> list[Opened]:
        running = self.running()
        given = [(nonce, running[nonce].key, running[nonce].attempt) for nonce in nonces if nonce in running]
        free = [nonce for nonce in nonces if nonce not in running]
        room = len(free) if not self.max_running else min(len(free), self.max_running - len(running))
        self.wake()
        taken = self._take(room)
        for nonce, job in zip(free, taken, strict=False):
            job.state, job.nonce, job.owner = State.RUNNING, nonce, owner
            job.attempt, job.reported, job.goes_first, job.unfinished = job.attempt + 1, 0, False, False
            job.acknowledged = job.aside = False
            job.tell(Status.STARTED)
            given.append((nonce, job.key, job.attempt))
        if taken:
            self.beats.setdefault(owner, 0)  # observers watch it from now on
        return given

    def _take(self, room: int) -> list[ModelJob]:
        """One on its last chance, alone; else what stands in line, unless that is all on its last chance."""
        return (self._take_suspect() or self._take_line(room) or self._take_suspect()) if room > 0 else []

    def _take_suspect(self) -> list[ModelJob]:
        suspects = [job for job in self.in_order() if job.aside][:1]
        for job in suspects:
            job.held = job.alone = True
        return suspects

    def _may_start(self, job: ModelJob) -> bool:
        """Sets one aside that is on its last chance."""
        job.aside, job.alone, job.goes_first = self.last_chance(job), False, False
        return not job.aside

    def _take_line(self, room: int) -> list[ModelJob]:
        """In strict order what waits for another attempt; then band by band those that go first, and the line."""
        taken: list[ModelJob] = []
        before_all = [job for job in self.in_order() if job.unfinished]
        for job in before_all:
            if job.state is State.WAITING and len(taken) < room:
                job.held = True
                taken += [job] if self._may_start(job) else []
        if len(taken) < len(before_all):
            return taken
        for band in BANDS:
            for job in self.line(band):
                if job.goes_first and len(taken) < room:
                    job.goes_first = False
                    if self.handed_out(job):  # else it is still to come in its line
                        taken += [job] if self._may_start(job) else []
            while len(taken) < room:
                unread = [job for job in self.line(band) if job.place > self.read_to[band]]
                if not (batch := unread[: room - len(taken)]):
                    break
                self.read_to[band] = batch[-1].place
                waiting = [job for job in batch if job.state is State.WAITING and job not in taken]
                taken += [job for job in waiting if self._may_start(job)]
        return taken

    def report(self, key: str, nonce: str, numbers: Sequence[int]) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce):
            return refusal
        if numbers[-1] <= job.reported:
            return "again"
        if job.asked:
            return "cancelled"
        job.reported = numbers[-1]
        for number in numbers:
            job.tell(Status.PROGRESS, number)
        return "shown"

    def complete(self, key: str, nonce: str) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, State.COMPLETED):
            return refusal
        if job.asked:
            return job.end(State.CANCELLED)
        job.end(State.COMPLETED)
        return "ok"

    def fail(self, key: str, nonce: str, attempts: int, *, due: bool) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, State.FAILED, State.DELAYED):
            return refusal
        job.failures += 1
        if job.asked:
            return job.end(State.CANCELLED)
        if job.failures >= attempts or self._circles(job):
            return job.end(State.FAILED)
        job.rest(Status.RETRYING, due)
        job.unfinished = self.strict
        return "retrying"

    def delay(self, key: str, nonce: str, *, due: bool) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, State.DELAYED):
            return refusal
        if end := self._must_end(job):
            return end
        job.rest(Status.DELAYED, due)
        job.unfinished = self.strict
        return "ok"

    def release(self, key: str, nonce: str) -> str:
        job = self.jobs[key]
        if refusal := job.refusal(nonce, State.WAITING):
            return refusal
        if end := self._must_end(job):
            return end
        self._back_in_line(job, suspect=job.alone)
        return "ok"

    def reclaim(self, key: str, nonce: str, owner: str, counter: str) -> str:
        job = self.jobs[key]
        if not job.running or job.nonce != nonce:
            return "gone"
        if counter != self.counter(owner):
            return "alive"
        job.nonce = None
        job.crashes += 1
        if not job.asked and job.crashes >= self.max_crashes and (job.alone or self.max_crashes == 1):
            return job.end(State.FAILED)
        if end := self._must_end(job):
            return end
        self._back_in_line(job, suspect=self.last_chance(job))
        return "reclaimed"

    def _circles(self, job: ModelJob) -> bool:
        return job.attempt - job.earlier >= self.max_starts

    def _must_end(self, job: ModelJob) -> str | None:
        """How a job ends that may not go on: somebody asked it to stop, or it was started too often."""
        if job.asked:
            return job.end(State.CANCELLED)
        return job.end(State.FAILED) if self._circles(job) else None

    def _back_in_line(self, job: ModelJob, *, suspect: bool) -> None:
        job.state, job.unfinished, job.acknowledged = State.WAITING, self.strict, False
        job.aside = suspect
        job.goes_first = not suspect and self.handed_out(job)  # else it is still to come, as old as it is
        job.tell(Status.SUPERSEDED)

    def cancel(self, key: str) -> str:
        job = self.jobs[key]
        if job.state.ended:
            return "again" if job.state is State.CANCELLED else job.state.value
        if job.running:
            if not job.asked:
                job.asked = True
                job.tell(Status.CANCELLING)
            return "cancelling"
        job.end(State.CANCELLED)
        return "ok"

    def reopen(self, key: str) -> str:
        job = self.jobs[key]
        if job.state not in (State.FAILED, State.CANCELLED):
            return job.state.value
        job.state, job.place, job.nonce = State.WAITING, self._next_place(), None
        job.failures, job.crashes, job.earlier, job.lives = 0, 0, job.attempt, job.lives + 1
        job.asked = job.held = job.acknowledged = False
        job.tell(Status.REOPENED)
        return "ok"

    def beat(self, owner: str, held: Iterable[str]) -> tuple[set[str], set[tuple[str, str]], set[str]]:
        self.beats[owner] = self.beats.get(owner, 0) + 1
        running, mine = self.running(), set(held)
        owned = {(job.key, nonce) for nonce, job in running.items() if job.owner == owner}
        stop = {nonce for nonce in mine & running.keys() if running[nonce].asked}
        return mine - running.keys(), {(key, nonce) for key, nonce in owned if nonce not in mine}, stop

    def bury(self, owner: str, counter: str) -> str:
        if counter != self.counter(owner):
            return "alive"
        if any(job.owner == owner for job in self.running().values()):
            return "holds"
        self.beats.pop(owner, None)
        return "buried"

    def acknowledge(self, key: str) -> None:
        """By hand. What was not handed out yet comes from the line; the rest is found by those who need it."""
        job = self.jobs[key]
        if not job.state.ended:
            job.acknowledged = job.place <= self.read_to[job.band]
            job.held = job.held and job.acknowledged

    def destroy_groups(self) -> None:
        """The lines are read from their beginning again, and what went first comes from there."""
        self.read_to = dict.fromkeys(BANDS, NOT_READ)
        for job in self.jobs.values():
            job.held = job.acknowledged = False
