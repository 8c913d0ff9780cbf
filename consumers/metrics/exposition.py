"""The counters of a consumer and its heart in the form that Prometheus reads."""

import platform
from collections.abc import Iterable, Sequence

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.consumers.metrics.counters import HeartCounters, PlatformCounters, summed
from tailrace.consumers.metrics.processes import families, usage_of
from tailrace.streams.process.histogram import SIZES, TRIPS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ConsumerMetrics(Struct, frozen=True):
    """One consumer at one moment."""

    owner: str
    version: str | None
    pid: int
    platforms: Sequence[PlatformCounters]
    heart: HeartCounters
    lag_seconds: float | None

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(ConsumerCollector(self))
        ProcessCollector(pid=lambda: self.pid, registry=registry)
        return generate_latest(registry)


class ConsumerCollector(Collector):
    """The metric families of one answer."""

    def __init__(self, seen: ConsumerMetrics) -> None:
        self._seen = seen

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        seen = self._seen
        yield from attempts(seen.platforms)
        yield from times(seen.platforms)
        reclaims = CounterMetricFamily(
            "tailrace_reclaims",
            "Jobs that went back into the queue unfinished: `lost`, taken from a silent consumer by this one; "
            "`released`, handed back by this one.",
            labels=["platform", "reason"],
        )
        for name, count in seen.heart.reclaimed.items():
            reclaims.add_metric([name, "lost"], count)
        for each in seen.platforms:
            reclaims.add_metric([each.platform, "released"], each.outcomes.get("released", 0))
        yield reclaims
        yield CounterMetricFamily("tailrace_beats", "Beats that reached the store.", seen.heart.beats)
        yield CounterMetricFamily("tailrace_beats_failed", "Beats that did not.", seen.heart.beats_failed)
        if seen.lag_seconds is not None:
            yield GaugeMetricFamily(
                "tailrace_loop_lag_seconds", "The longest time the loop was held, of the last 10 s.", seen.lag_seconds
            )
        info = GaugeMetricFamily(
            "tailrace_build_info", "1, and what runs here.", labels=["role", "version", "python", "consumer"]
        )
        info.add_metric(["consumer", seen.version or "", platform.python_version(), seen.owner], 1)
        yield info
        yield from families(usage_of(seen.pid))


def attempts(platforms: Sequence[PlatformCounters]) -> Iterable[Metric]:
    started = CounterMetricFamily("tailrace_attempts_started", "Attempts that began here.", labels=["platform"])
    over = CounterMetricFamily(
        "tailrace_attempts",
        "Attempts that are over, by outcome; `retrying` failed and is tried again, `lost` was taken over.",
        labels=["platform", "outcome"],
    )
    failures = CounterMetricFamily(
        "tailrace_failures",
        "Attempts that failed, by kind and type of error; beyond 100 pairs both are `other`.",
        labels=["platform", "kind", "error"],
    )
    refused = CounterMetricFamily(
        "tailrace_refused_writes", "Writes of attempts that had lost their job: the fence refused them.",
        labels=["platform"],
    )  # fmt: skip
    slots = GaugeMetricFamily("tailrace_slots", "Jobs that may run at a time here.", labels=["platform"])
    used = GaugeMetricFamily("tailrace_slots_used", "Jobs that run here.", labels=["platform"])
    for each in platforms:
        name = each.platform
        started.add_metric([name], each.started)
        for outcome, count in each.outcomes.items():
            over.add_metric([name, outcome], count)
        for kind, errors in each.failures.items():
            for error, count in errors.items():
                failures.add_metric([name, kind, error], count)
        refused.add_metric([name], each.refused)
        slots.add_metric([name], each.slots)
        used.add_metric([name], each.slots_used)
    return started, over, failures, refused, slots, used


def times(platforms: Sequence[PlatformCounters]) -> Iterable[Metric]:
    waits = HistogramMetricFamily(
        "tailrace_queue_wait_seconds",
        "From acceptance to the first start, of jobs that were not put off.",
        labels=["platform"],
    )
    runs = HistogramMetricFamily(
        "tailrace_run_seconds", "From the start of an attempt to its outcome.", labels=["platform"]
    )
    for each in platforms:
        if each.started:  # a platform without a job would be forty lines of zeros
            waits.add_metric([each.platform], list(each.waits.buckets()), each.waits.total)
            runs.add_metric([each.platform], list(each.runs.buckets()), each.runs.total)
    trips = summed([each.trips for each in platforms], TRIPS)
    batches = summed([each.batches for each in platforms], SIZES)
    yield waits
    yield runs
    yield HistogramMetricFamily(
        "tailrace_store_round_trip_seconds", "Calls of the store that settle and claim.",
        buckets=list(trips.buckets()), sum_value=trips.total,
    )  # fmt: skip
    yield HistogramMetricFamily(
        "tailrace_commit_operations", "Operations in one of these calls.",
        buckets=list(batches.buckets()), sum_value=batches.total,
    )  # fmt: skip
