"""Metrics: counts of this moment for Prometheus, straight from the store, so that they are true after any crash."""

from collections.abc import Iterable

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.backend import Backend
from tailrace.gateway.route_table import READ, TEXT, Answer, group
from tailrace.streams.views.overview import Overview, take_overviews
from tailrace.streams.views.presence import ConsumerPresence

route = group("process")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("waiting", "running", "delayed", "completed", "failed", "cancelled")


@route("GET", "/metrics", READ, {200: Answer("The text format, version 0.0.4.", media=(TEXT,))})
async def metrics(backend: Backend, _: Request) -> Response:
    """Counts of this moment for Prometheus."""
    overviews = await take_overviews(backend.store, backend.platforms)
    consumers = await backend.presence.see()
    moment = Moment(overviews, consumers, backend.live.count_of(backend.platforms), backend.settings.process)
    return Response(generate_latest(moment), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


class Moment(Collector):
    """The metrics of one answer."""

    def __init__(
        self, overviews: list[Overview], consumers: list[ConsumerPresence], watched: int, process: int
    ) -> None:
        self._overviews = overviews
        self._consumers = consumers
        self._watched = watched
        self._process = process

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily("tailrace_jobs", "Jobs that are kept, by state.", labels=["platform", "state"])
        oldest = GaugeMetricFamily(
            "tailrace_oldest_waiting_seconds", "How long the oldest waiting job has waited.", labels=["platform"]
        )
        paused = GaugeMetricFamily("tailrace_paused", "1 while a platform is paused.", labels=["platform"])
        alive = GaugeMetricFamily("tailrace_consumers", "Consumers whose beats arrive.", labels=["platform"])
        for overview in self._overviews:
            name = overview.platform
            for state in STATES:
                jobs.add_metric([name, state], getattr(overview, state))
            oldest.add_metric([name], overview.oldest_waiting_seconds or 0.0)
            paused.add_metric([name], float(overview.paused))
            alive.add_metric([name], sum(each.alive is True and name in each.platforms for each in self._consumers))
        yield from (jobs, oldest, paused, alive)
        beat = GaugeMetricFamily(
            "tailrace_beat_age_seconds", "Seconds since a consumer was last seen to beat.", labels=["consumer"]
        )
        for each in self._consumers:
            beat.add_metric(
                [each.owner], each.watched_seconds if each.changed_seconds is None else each.changed_seconds
            )
        yield beat
        watched = GaugeMetricFamily(
            "tailrace_watched_jobs", "Jobs that live clients of the answering process watch.", labels=["process"]
        )
        watched.add_metric([str(self._process)], self._watched)
        yield watched
