"""Why a job waits: all that holds it now, how many start before it, and when its turn may come; pure."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from msgspec import Struct

from streams.estimate import Outlook, expected_start, rate_until
from streams.events import iso
from streams.keys import join_id
from streams.line import Line, Running, labels_of
from streams.messages import Record
from streams.overview import read_pause
from streams.policies import Policy
from streams.presence import Consumer

NAMED = 3  # jobs that one sentence names


class Reason(Struct, frozen=True, omit_defaults=True):
    """One thing that a job waits for."""

    reason: str
    detail: str  # the same as a sentence
    job: str | None = None
    until: str | None = None
    by: str | None = None


class Waiting(
    Struct, frozen=True, rename={"exact": "positionExact", "reasons": "for", "expected_start": "expectedStartAt"}
):
    """Why a job waits, as clients get it."""

    position: int | None  # 1: the next to start; None: nobody can tell
    exact: bool  # False: at least so far behind
    reasons: tuple[Reason, ...]  # all that hold now, the decisive one first
    expected_start: str | None


class Gates(Struct, frozen=True):
    """What the store tells of a job's order key and limit key."""

    head: str | None = None  # the first of its order that has not ended
    order_running: str | None = None
    limit_running: int = 0
    counted_ms: float | None = None  # the start that the rate of its limit key counts from
    before: int = 0  # jobs that wait for the same limit key before it


class Case(Struct, frozen=True):
    """All that is known of a job that waits."""

    record: Record
    due_ms: float | None  # when a delayed job comes in line
    retrying: bool  # it is delayed because its last attempt failed
    policy: Policy
    line: Line
    place: int | None  # among those that claims would start, from 1; None: it is not one of them
    nearest: str | None = None  # who starts right before it
    in_line: int = 0  # how many there are that claims would start
    gates: Gates = Gates()
    consumers: Sequence[Consumer] | None = None  # of its platform; None: nobody has looked

    @property
    def rests(self) -> bool:
        return self.due_ms is not None and self.due_ms > self.line.now_ms

    def id(self, key: str) -> str:
        return join_id(self.record.platform, key)

    def named(self, jobs: Sequence[Running], count: int = 0) -> str:
        return some([self.id(job.key) for job in jobs], count)

    def serving(self) -> int | None:
        """How many consumers may take it; None: nobody has looked."""
        return None if self.consumers is None else sum(each.alive is not False for each in self.consumers)


def explain(case: Case) -> Waiting:
    """Everything that holds the job: its own time, then what `claim` asks of the platform, of the job, of the line."""
    if case.rests:
        reasons = [resting(case), *closed(case)]
        return Waiting(None, False, tuple(reasons), start_of(case, 1, reasons))  # what is due goes to the front
    gates = [*ordered(case), *limited(case)]
    position = case.place
    if position is None and not gates:  # it came after we looked, or stands behind all that we looked at
        position = case.in_line + 1
    reasons = [*closed(case), *gates, *busy(case), *ahead(case, position)]
    expected = start_of(case, case.place, reasons)
    return Waiting(position, case.place is not None, tuple(reasons or [Reason("next", "Its turn is next.")]), expected)


def resting(case: Case) -> Reason:
    until = iso(case.due_ms or 0)
    if case.retrying:
        return Reason("retry", f"Its last attempt failed; the next one is due at {until}.", until=until)
    return Reason("delay", f"It is not to start before {until}.", until=until)


def closed(case: Case) -> Iterator[Reason]:
    """What keeps every job of the platform from starting."""
    name, line, policy = case.record.platform, case.line, case.policy
    if line.paused is not None:
        by, since = read_pause(line.paused)
        told = f" by {by}" * bool(by) + f" since {since}" * bool(since)
        yield Reason("paused", f"The platform {name} is paused{told}: nothing starts until it is resumed.", by=by)
    if case.consumers is not None and not case.serving():
        silent = some([consumer.owner for consumer in case.consumers])
        told = f"No consumer of {name} is alive; silent: {silent}." if silent else f"No consumer of {name} is known."
        yield Reason("no_consumer", told)
    gates: list[tuple[float, str, str]] = []
    if line.held_until_ms > line.now_ms:
        gates.append((line.held_until_ms, "held", "a handler found a rate exceeded"))
    if (until_ms := rate_until(line.now_ms, line.counted_ms, policy.rate_seconds)) is not None:
        gates.append((until_ms, "rate", f"{policy.rate} may start within {policy.rate_seconds:g} s, and did"))
    for until_ms, word, why in sorted(gates, reverse=True):  # the later one decides
        until = iso(until_ms)
        yield Reason(word, f"Nothing of {name} starts before {until}: {why}.", until=until)


def ordered(case: Case) -> Iterator[Reason]:
    """The gate of its order key."""
    label, _ = labels_of(case.record.marks)
    running, head = case.gates.order_running, case.gates.head
    if running and any(job.key == running for job in case.line.running):
        told = f"Job {case.id(running)} of the same order key {label} runs."
        yield Reason("order", told, job=case.id(running))
    elif head and head != case.record.key:
        told = f"Job {case.id(head)} of the same order key {label} comes before it and has not ended."
        yield Reason("order", told, job=case.id(head))


def limited(case: Case) -> Iterator[Reason]:
    """The gates of its limit key."""
    _, label = labels_of(case.record.marks)
    if label is None:
        return
    policy, gates = case.policy, case.gates
    others = f" Of those that wait for it too, {counted(gates.before, 'job')} came before." if gates.before else ""
    if policy.key_overall and gates.limit_running >= policy.key_overall:
        holders = [job for job in case.line.running if job.limit == label]
        told = f"Of the limit key {label} {counted(policy.key_overall, 'job')} may run at a time"
        runs = f", and {case.named(holders)} {are(holders)} running." if holders else "."
        job = case.id(holders[0].key) if holders else None
        yield Reason("limit", told + runs + others, job=job)
    until_ms = rate_until(case.line.now_ms, gates.counted_ms, policy.key_rate_seconds)
    if until_ms is not None:
        until = iso(until_ms)
        told = f"Of the limit key {label} {counted(policy.key_rate, 'job')} may start within"
        told += f" {policy.key_rate_seconds:g} s, and did; the next one may at {until}."
        yield Reason("limit", told + others, until=until)


def busy(case: Case) -> Iterator[Reason]:
    """As many run as may, or as the consumers take."""
    running, runs, name = case.line.running, case.line.runs, case.record.platform
    room = (case.serving() or 0) * case.policy.per_process
    if case.policy.overall and runs >= case.policy.overall:
        most = f"{name} runs {counted(case.policy.overall, 'job')} at a time"
    elif room and runs >= room:
        most = f"The consumers of {name} run {counted(room, 'job')} at a time"
    else:
        return
    if not running:  # leases that nobody can read
        yield Reason("busy", f"{most}, and that many are running.")
        return
    told = f"{most}, and {case.named(running, runs)} {'is' if runs == 1 else 'are'} running."
    yield Reason("busy", told, job=case.id(running[0].key))


def ahead(case: Case, position: int | None) -> Iterator[Reason]:
    if position is None or position == 1:
        return
    before = f"{counted(position - 1, 'job')} {'starts' if position == 2 else 'start'} before it"
    if case.nearest is None:
        yield Reason("ahead", f"At least {before}.")
    else:
        nearest = case.id(case.nearest)
        told = f"{before}: {nearest}." if position == 2 else f"{before}; the last of them is {nearest}."
        yield Reason("ahead", told, job=nearest)


def start_of(case: Case, place: int | None, reasons: Sequence[Reason]) -> str | None:
    """When it may start, if that can be told: somebody must be there to start it, and its turn must be known."""
    closing = {"paused", "no_consumer", "order", "limit"}
    if place is None or any(each.reason in closing and each.until is None for each in reasons):
        return None
    line, policy = case.line, case.policy
    consumers = case.serving() or len({job.owner for job in line.running}) or 1
    slots = consumers * policy.per_process
    untils = (
        rate_until(line.now_ms, line.counted_ms, policy.rate_seconds),
        rate_until(line.now_ms, case.gates.counted_ms, policy.key_rate_seconds),
    )
    elapsed = [line.now_ms - job.started_ms for job in line.running]
    at = expected_start(
        Outlook(
            now_ms=line.now_ms,
            place=place,
            slots=min(slots, policy.overall) if policy.overall else slots,
            elapsed_ms=tuple(islice(cycle(elapsed), line.runs)),  # those that were looked at stand for the others
            took_ms=line.took_ms,
            not_before_ms=max(case.due_ms or 0, line.held_until_ms, *(until or 0 for until in untils)),
            rate=policy.rate,
            rate_ms=policy.rate_seconds * 1000,
        )
    )
    return None if at is None else iso(at)


def some(names: Sequence[str], count: int = 0) -> str:
    """The first few of them, and how many more there are; `count`, if only some have a name."""
    more = max(count, len(names)) - min(NAMED, len(names))
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def are(jobs: Sequence[Running]) -> str:
    return "is" if len(jobs) == 1 else "are"
