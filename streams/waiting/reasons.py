"""Why a job waits: all that holds it now, and how many stand before it; pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from tailrace.streams.history.events import iso
from tailrace.streams.keys import join_id
from tailrace.streams.messages import Record
from tailrace.streams.options import marks_of
from tailrace.streams.pauses import read_pause
from tailrace.streams.policies import Policy
from tailrace.streams.views.presence import ConsumerPresence
from tailrace.streams.waiting.position import Line, Running

NAMED = 3  # jobs that one sentence names


class Reason(Struct, frozen=True, omit_defaults=True):
    """One thing that a job waits for."""

    reason: str
    detail: str  # the same as a sentence
    job: str | None = None
    until: str | None = None
    by: str | None = None


class WhyWaiting(Struct, frozen=True, rename={"exact": "positionExact", "reasons": "for"}):
    """Why a job waits, as clients get it."""

    position: int | None  # 1: no job is before it; None: it waits beside the queue, or for its time
    exact: bool  # False: at least so far behind
    reasons: tuple[Reason, ...]  # all that hold now, the decisive one first


class Case(Struct, frozen=True):
    """Facts about a waiting job."""

    record: Record
    due_ms: float | None  # when a delayed job is enqueued
    retrying: bool  # it is delayed because its last attempt failed
    policy: Policy
    line: Line
    consumers: Sequence[ConsumerPresence] | None = None  # of its platform; None: there was no look

    @property
    def rests(self) -> bool:
        return self.due_ms is not None and self.due_ms > self.line.now_ms

    def id(self, key: str) -> str:
        return join_id(self.record.platform, key)

    def named(self, jobs: Sequence[Running], count: int = 0) -> str:
        return some([self.id(job.key) for job in jobs], count)

    @property
    def serving(self) -> list[str]:
        return serving(self.consumers)


def serving(consumers: Sequence[ConsumerPresence] | None) -> list[str]:
    """The consumers that may take a job: all but the silent ones."""
    return [each.owner for each in consumers or () if each.alive is not False]


def explain(case: Case) -> WhyWaiting:
    """Everything that holds the job: its own time, then what `claim` asks of the platform, of the job, of the line."""
    if case.rests:
        return WhyWaiting(None, False, (resting(case), *closed(case)))
    place = case.line.place
    reasons = (*closed(case), *held(case), *limited(case), *busy(case), *ahead(case))
    position, exact = (None, False) if place is None else (place.before + 1, place.exact)
    return WhyWaiting(position, exact, reasons or (Reason("next", "Its turn is next."),))


def resting(case: Case) -> Reason:
    until = iso(case.due_ms or 0)
    if case.record.awaits:
        return Reason("sleep", f"Its handler sleeps until {until}.", until=until)
    if case.retrying:
        return Reason("retry", f"Its last attempt failed; the next one is due at {until}.", until=until)
    return Reason("delay", f"It is not to start before {until}.", until=until)


def closed(case: Case) -> Iterator[Reason]:
    """The reasons that keep every job of the platform from starting."""
    name, line, policy = case.record.platform, case.line, case.policy
    if line.paused is not None:
        by, since = read_pause(line.paused)
        told = f" by {by}" * bool(by) + f" since {since}" * bool(since)
        yield Reason("paused", f"The platform {name} is paused{told}: nothing starts until it is resumed.", by=by)
    if case.consumers is not None and not case.serving:
        silent = some([consumer.owner for consumer in case.consumers])
        told = f"No consumer of {name} is alive; silent: {silent}." if silent else f"No consumer of {name} is known."
        yield Reason("no_consumer", told)
    gates: list[tuple[float, str, str]] = []
    if line.held_until_ms is not None:
        gates.append((line.held_until_ms, "held", "a handler found a rate exceeded"))
    if line.rate_until_ms is not None:
        gates.append((line.rate_until_ms, "rate", f"{policy.rate} may start within {policy.rate_seconds:g} s, and did"))
    for until_ms, word, why in sorted(gates, reverse=True):  # the later one decides
        until = iso(until_ms)
        yield Reason(word, f"Nothing of {name} starts before {until}: {why}.", until=until)


def held(case: Case) -> Iterator[Reason]:
    """The reasons that keep this job from starting: its last chance, strict order, its order key."""
    record, line = case.record, case.line
    if line.suspect:
        told = f"It lost {counted(record.crashes, 'worker')}: on its last chance it waits for a consumer process"
        yield Reason("suspect", f"{told} that runs nothing else.")
    if line.unfinished:
        job = case.id(line.unfinished)
        yield Reason("strict", f"{record.platform} runs in strict order, and job {job} waits for another attempt.", job)
    if line.order_before:
        job, label = case.id(line.order_before), marks_of(record.marks).get("order")
        how = "runs" if line.order_runs else "comes before it and has not ended"
        yield Reason("order", f"Job {job} of the same order key {label} {how}.", job)


def limited(case: Case) -> Iterator[Reason]:
    """The gates of its limit key."""
    label = marks_of(case.record.marks).get("limit")
    if label is None:
        return
    policy, line = case.policy, case.line
    before = line.limit_before
    others = f" Of those that wait for it too, {counted(before, 'job')} came before." if before else ""
    if line.limit_full:
        holders = [job for job in line.running if job.limit == label]
        told = f"Of the limit key {label} {counted(policy.max_running_per_key, 'job')} may run at a time"
        runs = f", and {case.named(holders)} {are(holders)} running." if holders else "."
        job = case.id(holders[0].key) if holders else None
        yield Reason("limit", told + runs + others, job=job)
    if line.limit_until_ms is not None:
        until = iso(line.limit_until_ms)
        told = f"Of the limit key {label} {counted(policy.key_rate, 'job')} may start within"
        told += f" {policy.key_rate_seconds:g} s, and did; the next one may at {until}."
        yield Reason("limit", told + others, until=until)


def busy(case: Case) -> Iterator[Reason]:
    """The reasons of a platform or of consumers without a free slot."""
    running, runs, name = case.line.running, case.line.runs, case.record.platform
    elsewhere = case.line.lane
    if case.line.lane_full:
        most = f"The lane {case.policy.lane} runs {counted(case.policy.max_running, 'job')} at a time"
        there = ", ".join(f"{count} of {platform}" for platform, count in sorted(elsewhere.items()))
        yield Reason("lane", f"{most}, and {there} {'is' if sum(elsewhere.values()) == 1 else 'are'} running.")
    if case.line.slots_full:
        most = f"{name} runs {counted(case.policy.max_running, 'job')} at a time"
    elif case.line.processes_full:
        slots = len(case.serving) * case.policy.max_running_per_process
        most = f"The consumers of {name} run {counted(slots, 'job')} at a time"
    else:
        return
    if not running:  # leases that cannot be read
        yield Reason("busy", f"{most}, and that many are running.")
        return
    told = f"{most}, and {case.named(running, runs)} {'is' if runs == 1 else 'are'} running."
    yield Reason("busy", told, job=case.id(running[0].key))


def ahead(case: Case) -> Iterator[Reason]:
    place = case.line.place
    if place is None or place.before == 0:
        return
    before = f"{counted(place.before, 'job')} {'stands' if place.before == 1 else 'stand'} before it"
    if not place.exact:
        yield Reason("ahead", f"At least {before}.")
    elif place.nearest is None:
        yield Reason("ahead", f"{before}.")
    else:
        nearest = case.id(place.nearest)
        told = f"{before}: {nearest}." if place.before == 1 else f"{before}; the last of them is {nearest}."
        yield Reason("ahead", told, job=nearest)


def some(names: Sequence[str], count: int = 0) -> str:
    """The first few of them, and how many more there are; `count`, if only some have a name."""
    more = max(count, len(names)) - min(NAMED, len(names))
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def are(jobs: Sequence[Running]) -> str:
    return "is" if len(jobs) == 1 else "are"
