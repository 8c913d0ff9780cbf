"""Every alert rule, once: as PromQL for Prometheus, and as a check of the store for `alerts`.

`rule_file` writes `ops/deploy/prometheus/rules.yml` from this table. Each rule has a paragraph in `ops/runbook.md`.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from tailrace.streams.views.health import Health, PlatformHealth
from tailrace.streams.views.presence import ConsumerPresence

Severity = Literal["critical", "warning"]

WAITING: Final = 1000  # jobs in one queue
OLDEST_SECONDS: Final = 600.0
LATE_SECONDS: Final = 60.0  # of a schedule
FAILED: Final = 5  # jobs in ten minutes, and a tenth of all that ended
FAILED_SHARE: Final = 0.1
LOST: Final = 3  # attempts in a quarter of an hour
MEMORY_SHARE: Final = 0.8
MINUTE: Final = 60.0
STORE: Final = "store"  # the subject of incidents that concern no platform


class Growth(Struct, frozen=True):
    """Counts of a platform that grew within a time."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    lost: int = 0


class Sight(Struct, frozen=True):
    """The facts that rules look at. Without `health` the store does not answer."""

    health: Health | None
    consumers: tuple[ConsumerPresence, ...] = ()
    refused: int = 0  # writes that the fence refused, within ten minutes
    grown: Callable[[str, float], Growth] = lambda platform, seconds: Growth()
    waiting: int = WAITING
    oldest_seconds: float = OLDEST_SECONDS

    @property
    def platforms(self) -> list[PlatformHealth]:
        return self.health.platforms if self.health else []


Found = Iterator[tuple[str, str]]  # a platform, or the store, with the numbers that are wrong


class Rule(NamedTuple):
    name: str
    severity: Severity
    says: str
    """One sentence, as a message and a page show it."""
    promql: str
    number: str
    """The form of Prometheus' value in a sentence."""
    find: Callable[[Sight], Found]
    for_seconds: float = 0.0
    """How long it must be so."""
    window_seconds: float = 0.0
    """The time that the rule looks back."""

    @property
    def anchor(self) -> str:
        """The anchor of its paragraph in the runbook."""
        return self.name.removeprefix("Tailrace").lower()


def queue_long(sight: Sight) -> Found:
    for each in sight.platforms:
        if (waiting := each.overview.waiting) > sight.waiting:
            yield each.overview.platform, f"{waiting:,} jobs wait"


def oldest_old(sight: Sight) -> Found:
    for each in sight.platforms:
        waited = each.overview.oldest_waiting_seconds or 0.0
        if waited > sight.oldest_seconds and not each.overview.paused:
            yield each.overview.platform, f"the oldest job has waited for {waited:,.0f} s"


def worker_dead(sight: Sight) -> Found:
    for each in sight.platforms:
        name = each.overview.platform
        if silent := [found.owner for found in sight.consumers if found.alive is False and name in found.platforms]:
            yield name, f"{len(silent)} of its workers beat no more: {', '.join(sorted(silent)[:3])}"


def platform_unserved(sight: Sight) -> Found:
    for each in sight.platforms:
        seen = each.overview
        unfinished = seen.waiting + seen.running + seen.delayed
        serving = [found for found in sight.consumers if found.alive is not False and seen.platform in found.platforms]
        if unfinished and not serving:
            yield seen.platform, f"{unfinished:,} jobs and no worker"


def failures_grow(sight: Sight) -> Found:
    for each in sight.platforms:
        grown = sight.grown(each.overview.platform, 10 * MINUTE)
        ended = grown.completed + grown.failed + grown.cancelled
        if grown.failed >= FAILED and grown.failed > FAILED_SHARE * ended:
            yield each.overview.platform, f"{grown.failed:,} of {ended:,} jobs failed in ten minutes"


def writes_refused(sight: Sight) -> Found:
    if sight.refused:
        yield STORE, f"{sight.refused:,} writes of workers that had lost their job were refused in ten minutes"


def crash_loop(sight: Sight) -> Found:
    for each in sight.platforms:
        grown = sight.grown(each.overview.platform, 15 * MINUTE)
        if grown.lost >= LOST:
            yield each.overview.platform, f"{grown.lost:,} attempts lost their worker in a quarter of an hour"


def store_down(sight: Sight) -> Found:
    if sight.health is None:
        yield STORE, "it does not answer"


def store_evicts(sight: Sight) -> Found:
    if sight.health and sight.health.store.evicts:
        yield STORE, "its maxmemory-policy is not noeviction"


def store_write_fails(sight: Sight) -> Found:
    if sight.health and (failing := sight.health.store.failing):
        yield STORE, f"it reports {', '.join(failing)}"


def store_full(sight: Sight) -> Found:
    if sight.health and sight.health.store.memory_share > MEMORY_SHARE:
        yield STORE, f"{sight.health.store.memory_share:.0%} of its memory is in use"


def schedule_late(sight: Sight) -> Found:
    for each in sight.platforms:
        if each.next_tick_ms is not None and sight.health:
            late = (sight.health.store.now_ms - each.next_tick_ms) / 1000
            if late > LATE_SECONDS:
                yield each.overview.platform, f"a schedule is {late:,.0f} s late"


RULES: Final = (
    Rule(
        "TailraceQueueLong",
        "warning",
        "Too many jobs wait.",
        f'tailrace_jobs{{state="waiting"}} > {WAITING}',
        "{{ $value }} jobs wait",
        queue_long,
        for_seconds=5 * MINUTE,
    ),
    Rule(
        "TailraceOldestOld",
        "warning",
        "A job waits for too long.",
        f"(time() - tailrace_oldest_waiting_timestamp_seconds > {OLDEST_SECONDS:g}) "
        "unless on (platform, instance) (tailrace_paused == 1)",
        "the oldest job has waited for {{ $value | humanizeDuration }}",
        oldest_old,
        for_seconds=MINUTE,
    ),
    Rule(
        "TailraceWorkerDead",
        "critical",
        "A worker is dead: it did not say goodbye and beats no more.",
        # A port is away for some seconds while its worker starts, or starts again.
        '(tailrace_silent_consumers > 0) or (up{job="tailrace-consumers"} == 0 and '
        'up{job="tailrace-consumers"} offset 30s == 0)',
        "{{ if $labels.platform }}{{ $value }} of its workers beat no more{{ else }}{{ $labels.instance }} "
        "does not answer{{ end }}",
        worker_dead,
        window_seconds=MINUTE,  # only a worker that was watched for its deadline is known to be dead
    ),
    Rule(
        "TailracePlatformUnserved",
        "critical",
        "A platform has jobs and no worker.",
        'sum by (platform, instance) (tailrace_jobs{state=~"waiting|running|delayed"}) > 0 '
        "and on (platform, instance) tailrace_consumers == 0",
        "{{ $value }} jobs and no worker",
        platform_unserved,
        for_seconds=MINUTE,
    ),
    Rule(
        "TailraceFailuresGrow",
        "warning",
        "Many jobs fail.",
        f'(increase(tailrace_ended_total{{outcome="failed"}}[10m]) >= {FAILED}) > ignoring (outcome) '
        f"{FAILED_SHARE:g} * sum without (outcome) (increase(tailrace_ended_total[10m]))",
        "{{ $value | humanize }} jobs failed in ten minutes",
        failures_grow,
        window_seconds=10 * MINUTE,
    ),
    Rule(
        "TailraceWritesRefused",
        "warning",
        "Writes of workers that had lost their job were refused: nothing is wrong with the histories, "
        "but something froze these workers.",
        "sum by (platform) (increase(tailrace_refused_writes_total[10m])) > 0",
        "{{ $value | humanize }} writes in ten minutes",
        writes_refused,
        window_seconds=10 * MINUTE,
    ),
    Rule(
        "TailraceCrashLoop",
        "critical",
        "Workers die again and again in the middle of jobs.",
        f"increase(tailrace_lost_attempts_total[15m]) >= {LOST}",
        "{{ $value | humanize }} attempts lost their worker in a quarter of an hour",
        crash_loop,
        window_seconds=15 * MINUTE,
    ),
    Rule(
        "TailraceStoreDown",
        "critical",
        "The store, or the gateway that tells of it, does not answer.",
        'tailrace_store_up == 0 or up{job="tailrace-gateway"} == 0',
        "it does not answer",
        store_down,
        for_seconds=30.0,
    ),
    Rule(
        "TailraceStoreEvicts",
        "critical",
        "The store would drop jobs to make room; gateways take no new ones.",
        "tailrace_store_evicts == 1",
        "its maxmemory-policy is not noeviction",
        store_evicts,
    ),
    Rule(
        "TailraceStoreWriteFails",
        "critical",
        "The store cannot write to its disk.",
        "tailrace_store_writes_failing == 1",
        "see its log and its free disk space",
        store_write_fails,
    ),
    Rule(
        "TailraceStoreFull",
        "warning",
        "The memory of the store is nearly full; when it is, new jobs are refused.",
        f"tailrace_store_memory_bytes / (tailrace_store_memory_limit_bytes > 0) > {MEMORY_SHARE:g}",
        "{{ $value | humanizePercentage }} is in use",
        store_full,
        for_seconds=MINUTE,
    ),
    Rule(
        "TailraceScheduleLate",
        "warning",
        "A schedule is late: no worker of its platform ticks.",
        f"time() - tailrace_next_tick_timestamp_seconds > {LATE_SECONDS:g}",
        "it is {{ $value | humanizeDuration }} late",
        schedule_late,
    ),
)
