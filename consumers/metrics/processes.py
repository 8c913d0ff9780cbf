"""Memory and processor time of a consumer and of all that belongs to it: heart, worker processes, browsers."""

import os
from collections.abc import Iterable

import psutil
from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Usage(Struct):
    """Memory and CPU time of one group of processes."""

    memory_bytes: int = 0
    cpu_seconds: float = 0.0


def usage_of(consumer_pid: int) -> dict[str, Usage]:
    """By `consumer`, `heart` (this process) and `children`: all that the consumer and its handlers have started.

    The time of children that are gone counts as long as their parent lives, so that the sum does not fall.
    """
    used = {"consumer": Usage(), "heart": Usage(), "children": Usage()}
    try:
        consumer = psutil.Process(consumer_pid)
        family = [consumer, *consumer.children(recursive=True)]
    except psutil.Error:
        return {}
    for process in family:
        try:
            times, memory = process.cpu_times(), process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile
            continue
        own = "consumer" if process is consumer else "heart" if process.pid == os.getpid() else "children"
        used[own].memory_bytes += memory
        used[own].cpu_seconds += times.user + times.system
        used["children"].cpu_seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return used


def families(used: dict[str, Usage]) -> Iterable[Metric]:
    memory = GaugeMetricFamily(
        "tailrace_process_memory_bytes",
        "Resident memory of the consumer, its heart, and all other processes that it started.",
        labels=["process"],
    )
    cpu = CounterMetricFamily(
        "tailrace_process_cpu_seconds", "Processor time of the same processes.", labels=["process"]
    )
    for process, each in used.items():
        memory.add_metric([process], each.memory_bytes)
        cpu.add_metric([process], each.cpu_seconds)
    return memory, cpu
