"""The metrics of one answer: counts in the store now, and the counters of this process."""

import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import metadata

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.gateway.metrics.counters import GatewayCounters
from tailrace.streams.views.health import Health, StoreHealth
from tailrace.streams.views.presence import ConsumerPresence

STATES = ("waiting", "running", "delayed", "awaiting", "completed", "failed", "cancelled")
OUTCOMES = ("completed", "failed", "cancelled")


class ProcessCounts(Struct, frozen=True):
    """The counts of the answering process since it started."""

    number: int  # of several that share a port
    watched_jobs: int
    counters: GatewayCounters | None = None  # None: of all platforms, and not for the caller


class GatewayMetrics(Struct, frozen=True):
    """One gateway at one moment; without `health` the store does not answer."""

    health: Health | None
    consumers: Sequence[ConsumerPresence]
    process: ProcessCounts

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(GatewayCollector(self))
        if self.process.counters:
            ProcessCollector(registry=registry)
        return generate_latest(registry)


class GatewayCollector(Collector):
    """The metric families of one answer."""

    def __init__(self, seen: GatewayMetrics) -> None:
        self._seen = seen

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        seen = self._seen
        yield GaugeMetricFamily("tailrace_store_up", "1 while the store answers.", float(seen.health is not None))
        if seen.health:
            yield from platforms(seen.health, seen.consumers)
            if seen.process.counters:
                yield from store(seen.health.store)
                yield from nodes(seen.health)
        yield from process(seen.process)


def platforms(health: Health, consumers: Sequence[ConsumerPresence]) -> Iterable[Metric]:
    jobs = GaugeMetricFamily("tailrace_jobs", "Jobs that are kept, by state.", labels=["platform", "state"])
    oldest = GaugeMetricFamily(
        "tailrace_oldest_waiting_seconds", "How long the oldest waiting job has waited.", labels=["platform"]
    )
    since = GaugeMetricFamily(
        "tailrace_oldest_waiting_timestamp_seconds",
        "Since when the oldest waiting job waits, by the store's clock; absent where none waits.",
        labels=["platform"],
    )
    ended = CounterMetricFamily(
        "tailrace_ended", "Jobs that have ever ended, as the store counts them.", labels=["platform", "outcome"]
    )
    lost = CounterMetricFamily(
        "tailrace_lost_attempts", "Attempts whose consumer fell silent, as the store counts them.", labels=["platform"]
    )
    paused = GaugeMetricFamily("tailrace_paused", "1 while a platform is paused.", labels=["platform"])
    alive = GaugeMetricFamily("tailrace_consumers", "Consumers whose beats arrive.", labels=["platform"])
    silent = GaugeMetricFamily(
        "tailrace_silent_consumers", "Consumers that did not say goodbye and beat no more.", labels=["platform"]
    )
    tick = GaugeMetricFamily(
        "tailrace_next_tick_timestamp_seconds",
        "When the first schedule of a platform is due; absent where there is none.",
        labels=["platform"],
    )
    living, dead = serving(consumers, alive=True), serving(consumers, alive=False)
    for each in health.platforms:
        overview, name = each.overview, each.overview.platform
        for state in STATES:
            jobs.add_metric([name, state], getattr(overview, state))
        oldest.add_metric([name], overview.oldest_waiting_seconds or 0.0)
        if each.waiting_since_ms is not None:
            since.add_metric([name], each.waiting_since_ms / 1000)
        for outcome in OUTCOMES:
            ended.add_metric([name, outcome], getattr(each.tally, outcome))
        lost.add_metric([name], each.tally.lost)
        paused.add_metric([name], float(overview.paused))
        alive.add_metric([name], living[name])
        silent.add_metric([name], dead[name])
        if each.next_tick_ms is not None:
            tick.add_metric([name], each.next_tick_ms / 1000)
    beat = GaugeMetricFamily(
        "tailrace_beat_age_seconds", "Seconds since a consumer was last seen to beat.", labels=["consumer"]
    )
    for found in consumers:
        beat.add_metric(
            [found.owner], found.watched_seconds if found.changed_seconds is None else found.changed_seconds
        )
    return jobs, oldest, since, ended, lost, paused, alive, silent, tick, beat


def serving(consumers: Sequence[ConsumerPresence], *, alive: bool) -> Counter[str]:
    """How many of those that live, or that fell silent, serve each platform."""
    return Counter(name for found in consumers if found.alive is alive for name in found.platforms)


def store(seen: StoreHealth) -> Iterable[Metric]:
    for name, what, value in (
        ("ping_seconds", "The time of one short call just now.", seen.trip_seconds),
        ("memory_bytes", "Memory that the store uses.", seen.memory_bytes),
        ("memory_limit_bytes", "Memory that it may use; 0: no limit is set.", seen.memory_limit_bytes),
        ("evicts", "1 when the store would drop jobs to make room.", float(seen.evicts)),
        ("append_only_file", "1 when the store keeps an append-only file.", float(seen.keeps_file)),
        ("writes_failing", "1 when the store cannot write to its disk.", float(bool(seen.failing))),
        (
            "clock_skew_seconds",
            "How far the store's clock is ahead of this machine's.",
            seen.now_ms / 1000 - time.time(),
        ),
    ):
        yield GaugeMetricFamily(f"tailrace_store_{name}", what, value)


def nodes(seen: Health) -> Iterable[Metric]:
    """The nodes of a cluster, and which of them has each platform."""
    if not seen.store.nodes:
        return
    up = GaugeMetricFamily("tailrace_node_up", "1 while a node of the cluster answers.", labels=["node"])
    trip = GaugeMetricFamily("tailrace_node_ping_seconds", "The time of one short call to a node.", labels=["node"])
    memory = GaugeMetricFamily("tailrace_node_memory_bytes", "Memory that a node uses.", labels=["node"])
    limit = GaugeMetricFamily(
        "tailrace_node_memory_limit_bytes", "Memory that it may use; 0: no limit is set.", labels=["node"]
    )
    replicas = GaugeMetricFamily("tailrace_node_replicas", "Replicas that are connected to a node.", labels=["node"])
    for node in seen.store.nodes:
        up.add_metric([node.address], float(node.down is None))
        if node.down is None:
            trip.add_metric([node.address], node.trip_seconds)
            memory.add_metric([node.address], node.memory_bytes)
            limit.add_metric([node.address], node.memory_limit_bytes)
            replicas.add_metric([node.address], node.replicas)
    where = GaugeMetricFamily("tailrace_platform_node", "1, and the node of a platform.", labels=["platform", "node"])
    for platform_name, node_name in seen.node_of.items():
        where.add_metric([platform_name, node_name], 1)
    yield from (up, trip, memory, limit, replicas, where)


def process(counts: ProcessCounts) -> Iterable[Metric]:
    number = [str(counts.number)]
    watched = GaugeMetricFamily(
        "tailrace_watched_jobs", "Jobs that live clients of the answering process watch.", labels=["process"]
    )
    watched.add_metric(number, counts.watched_jobs)
    yield watched
    if counts.counters is None:
        return
    clients = GaugeMetricFamily("tailrace_sse_clients", "Live streams that are open.", labels=["process"])
    clients.add_metric(number, counts.counters.clients)
    events = CounterMetricFamily("tailrace_sse_events", "Events sent to live clients.", labels=["process"])
    events.add_metric(number, counts.counters.events_sent)
    requests = CounterMetricFamily(
        "tailrace_requests", "Answers by route and status.", labels=["process", "route", "code"]
    )
    for (route, code), count in sorted(counts.counters.answers.items()):
        requests.add_metric([*number, route, str(code)], count)
    info = GaugeMetricFamily("tailrace_build_info", "1, and what runs here.", labels=["role", "version", "python"])
    info.add_metric(["gateway", version(), platform.python_version()], 1)
    yield from (clients, events, requests, info)


def version() -> str:
    try:
        return metadata.version("tailrace")
    except metadata.PackageNotFoundError:
        return ""
