"""The heart's answers to Prometheus and to probes."""

import time
from collections.abc import Callable
from http import HTTPStatus

from tailrace.consumers.heart.introduction import version
from tailrace.consumers.heart.messages import Instructions, MetricsAddress
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.consumers.heart.vitals import read_note
from tailrace.consumers.metrics.counters import HeartCounters
from tailrace.consumers.metrics.exposition import CONTENT_TYPE, ConsumerMetrics
from tailrace.consumers.metrics.page import CounterPage
from tailrace.consumers.metrics.server import HttpAnswer, MetricsServer


class HeartAnswers:
    """Answers for one consumer."""

    def __init__(
        self,
        instructions: Instructions,
        table: LeaseTable,
        address: MetricsAddress,
        counters: HeartCounters,
        runs: Callable[[], bool],
    ) -> None:
        """`runs`: whether the process of the consumer is at work."""
        self._to = instructions
        self._table = table
        self._page = CounterPage(address.page_fd)
        self._counters = counters
        self._runs = runs
        paths = {"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready}
        self.server = MetricsServer(address.host, address.port, paths)

    def _metrics(self) -> HttpAnswer:
        note = read_note(self._table)
        seen = ConsumerMetrics(
            owner=self._to.owner,
            version=version(),
            pid=self._to.consumer_pid,
            platforms=self._page.read(),
            heart=self._counters,
            lag_seconds=note.lag_seconds(time.monotonic()) if note else None,
        )
        return HttpAnswer(HTTPStatus.OK, seen.text(), CONTENT_TYPE)

    def _alive(self) -> HttpAnswer:
        """A consumer that is busy lives, however long a handler holds its loop; one that was stopped does not."""
        if self._runs():
            return HttpAnswer(HTTPStatus.OK, b"ok\n")
        return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, b"the process of the consumer is stopped or gone\n")

    def _ready(self) -> HttpAnswer:
        """Without beats it claims nothing."""
        good_seconds = self._to.deadline_seconds - self._to.beat_seconds
        if self._runs() and time.monotonic() < self._table.last_beat() + good_seconds:
            return HttpAnswer(HTTPStatus.OK, b"ready\n")
        return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, b"beats do not reach the store: no new jobs are claimed\n")
