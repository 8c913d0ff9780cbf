"""Who stands in line on a platform, and in which order claims would start them."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from streams.events import entry_order
from streams.policies import Policy

MOST = 1000  # jobs that are looked at: a few milliseconds of the server's time
ROUNDS = 10  # that a playing has for each job: more than it ever needs
RECENT = 20  # completed jobs that tell how long one takes

Place = tuple[float, str]  # score and key, as sorted sets order them


class Running(Struct, frozen=True, gc=False):
    """A job that has an owner."""

    key: str
    owner: str
    stamp: int  # of its start: microseconds of the store's clock, and the number within its call
    order: str | None = None
    limit: str | None = None

    @property
    def started_ms(self) -> int:
        return int(str(self.stamp)[:13])


class Standing(Struct, frozen=True, gc=False):
    """A job that waits: in line, at the front, or beside the line until its order or its limit lets it go on."""

    key: str
    acceptance: float  # its place by age
    order: str | None = None
    limit: str | None = None


class LimitKey(Struct, frozen=True):
    running: int
    free: int | None  # starts that its rate allows now; None: any number
    parked: tuple[Place, ...] = ()  # who waits for it beside the line


class OrderKey(Struct, frozen=True):
    running: str | None
    members: tuple[Place, ...]  # not ended, first to last


class Line(Struct, frozen=True):
    """A platform at one moment, as far as a claim cares; times are the store's."""

    now_ms: int
    paused: bytes | None
    held_until_ms: float
    counted_ms: float | None  # the start that the platform's rate counts from
    whole: bool  # False: there are more in line than were looked at
    runs: int  # how many have an owner
    running: tuple[Running, ...]  # some of those, oldest first; all, unless there are hundreds
    standing: dict[str, Standing]  # all who wait
    front: tuple[Place, ...]
    bands: dict[str, bool]  # who stands in a band, first band first; True: may be called to the front before its turn
    limits: dict[str, LimitKey]
    orders: dict[str, OrderKey]
    took_ms: tuple[int, ...]  # of the last jobs that completed


def to_line(answer: Sequence[Any]) -> Line:
    """What `line` answers. A job that somebody spoilt is passed over; ValueError: what is told of the platform was."""
    head, running, waiting, ahead, bands, (limited, ordered), took = answer
    runs: list[Running] = []
    standing: dict[str, Standing] = {}
    took_ms: list[int] = []
    for key, owner, started, marks in grouped(running, 4):
        with suppress(ValueError):
            runs.append(Running(text(key), text(owner), int(started.partition(b"-")[2]), *labels_of(text(marks))))
    for key, entry, marks in grouped(waiting, 3):
        with suppress(ValueError):
            standing[text(key)] = Standing(text(key), acceptance(text(entry)), *labels_of(text(marks)))
    for started, ended_ms in grouped(took, 2):
        with suppress(ValueError):
            took_ms.append(max(0, int(ended_ms) - int(started.partition(b"-")[2][:13])))
    front = [(text(key), score) for key, score in grouped(ahead, 2)]
    return Line(
        now_ms=int(head[0]),
        paused=head[1],
        held_until_ms=float(head[2] or 0),
        counted_ms=None if head[3] is None else float(head[3]),
        whole=head[4] == b"1",
        runs=int(head[5]),
        running=tuple(sorted(runs, key=lambda job: job.stamp)),
        standing=standing,
        front=tuple((float(score or standing[key].acceptance), key) for key, score in front if key in standing),
        bands={text(key): called == b"1" for key, called in grouped(bands, 2) if text(key) in standing},
        limits={
            text(label): LimitKey(int(number), None if free is None else int(free), to_places(parked))
            for label, number, free, parked in grouped(limited, 4)
        },
        orders={
            text(label): OrderKey(text(key) if key else None, to_places(members))
            for label, key, members in grouped(ordered, 3)
        },
        took_ms=tuple(took_ms),
    )


def to_places(flat: Sequence[bytes]) -> tuple[Place, ...]:
    return tuple((float(score), text(key)) for key, score in grouped(flat, 2))


def grouped(flat: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(flat[start::size] for start in range(size)), strict=True)


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def labels_of(marks: str | None) -> tuple[str | None, str | None]:
    """The order key and the limit key among a job's marks."""
    words = dict(word.split("=", 1) for word in (marks or "").split() if "=" in word)
    return words.get("order"), words.get("limit")


def acceptance(entry: str) -> float:
    """The place in line of an entry, as the store counts it: see events.lua."""
    ms, number = entry_order(entry)
    return float(ms * 4096 + min(number, 4095))


def turns(line: Line, policy: Policy) -> list[str]:
    """Who starts when: the keys of those that stand in line, in the order in which claims would start them.

    It plays `claim` forward, a start at a time, as if nobody else came, bands had no share, and whoever began first
    ended first, when there is no other way to go on. A job that only a stranger's end or time could set free is not
    in it.
    """
    return Play(line, policy).run()


class Places:
    """A sorted set as the store has them: a key is in it once, and keeps its place."""

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._scores: dict[str, float] = {}
        self._heap: list[Place] = []  # also of those that left: known by their score
        for place in places:
            self.add(place)

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, place: Place) -> None:
        score, key = place
        if key not in self._scores:
            self._scores[key] = score
            heappush(self._heap, place)

    def drop(self, key: str) -> None:
        self._scores.pop(key, None)

    def first(self) -> Place | None:
        while self._heap:
            score, key = self._heap[0]
            if self._scores.get(key) == score:
                return score, key
            heappop(self._heap)
        return None

    def pop(self) -> Place | None:
        first = self.first()
        if first:
            heappop(self._heap)
            del self._scores[first[1]]
        return first


class Play:
    """One playing; its rules are those of `claim.lua` and of `let_go` in events.lua."""

    def __init__(self, line: Line, policy: Policy) -> None:
        self._policy = policy
        self._jobs = line.standing
        self._front = Places(line.front)
        self._coming: list[Place] = []  # to the front, for the next claim
        self._bands = deque(line.bands)
        self._unread = {key for key, called in line.bands.items() if not called}  # only their turn brings them
        self._parked = defaultdict(Places, {label: Places(key.parked) for label, key in line.limits.items()})
        self._running: deque[Running | Standing] = deque(line.running)
        self._busy = {label: key.running for label, key in line.limits.items()}
        self._free = {label: key.free for label, key in line.limits.items() if key.free is not None}
        self._ahead = defaultdict(Places, {label: Places(key.members) for label, key in line.orders.items()})
        self._runs = {label: key.running for label, key in line.orders.items()}
        for job in line.standing.values():
            if job.order:
                self._ahead[job.order].add((job.acceptance, job.key))  # it is not there if others have passed it
        self._started: dict[str, None] = {}
        self.rounds_left = ROUNDS * (len(line.standing) + len(line.running) + ROUNDS)

    def run(self) -> list[str]:
        """Every round starts, ends or calls somebody; the count sees to an end whatever stands in the store."""
        most = self._policy.overall
        while self.rounds_left > 0:
            self.rounds_left -= 1
            if most and len(self._running) >= most:
                self._end(self._running.popleft())
            elif job := self._claim():
                self._started[job.key] = None
                self._running.append(job)
            elif self._coming:  # somebody was called meanwhile
                continue
            elif self._running:
                self._end(self._running.popleft())
            elif any(self._parked.values()):  # only time can help those: it does
                for label, parked in self._parked.items():
                    self._busy[label] = 0  # nobody runs: a count that says otherwise was spoilt
                    self._free[label] = self._policy.key_rate or len(parked)
                    self._unpark(label, len(parked))
            else:
                break
        return list(self._started)

    def _claim(self) -> Standing | None:
        for called in self._coming:
            self._front.add(called)
        self._coming = []
        while place := self._front.pop():
            job = self._jobs.get(place[1])
            if job and job.key not in self._unread and self._admits(job):
                return job
        while self._bands:
            job = self._jobs[self._bands.popleft()]
            self._unread.discard(job.key)
            if self._admits(job):
                return job
        return None

    def _admits(self, job: Standing) -> bool:
        if job.key in self._started:
            return False
        most, limit = self._policy.key_overall, job.limit
        busy = self._busy.get(limit, 0) if limit else 0
        if job.order and (self._runs.get(job.order) or self._head(job.order) not in {job.key, None}):
            if limit and busy < most:
                self._unpark(limit, 1)
            return False
        if limit:
            if (most and busy >= most) or self._free.get(limit, 1) <= 0:
                self._parked[limit].add((job.acceptance, job.key))
                return False
            self._parked[limit].drop(job.key)
            if limit in self._free:
                self._free[limit] -= 1
            self._busy[limit] = busy + 1
            places = most - busy - 1 if most else 100
            if places > 0 and not self._policy.key_rate:
                self._unpark(limit, places)
        if job.order:
            self._runs[job.order] = job.key
        return True

    def _head(self, order: str) -> str | None:
        first = self._ahead[order].first()
        return first[1] if first else None

    def _end(self, job: Running | Standing) -> None:
        if job.limit:
            self._busy[job.limit] = self._busy.get(job.limit, 0) - 1
            self._unpark(job.limit, 1)
        if job.order:
            if self._runs.get(job.order) == job.key:
                self._runs[job.order] = None
            self._ahead[job.order].drop(job.key)
            if first := self._ahead[job.order].first():
                self._coming.append(first)

    def _unpark(self, label: str, count: int) -> None:
        parked = self._parked[label]
        for _ in range(min(count, len(parked))):
            if place := parked.pop():
                self._coming.append(place)
