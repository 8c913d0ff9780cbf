"""Metrics: counts in the store at this moment, and the counters of the answering process."""

from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.backend import Backend
from tailrace.gateway.metrics.exposition import GatewayMetrics, ProcessCounts
from tailrace.gateway.route_table import READ, TEXT, Answer, group
from tailrace.streams.errors import StoreError
from tailrace.streams.views.health import Health, take_health
from tailrace.streams.views.presence import ConsumerPresence

route = group("process")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@route("GET", "/metrics", READ, {200: Answer("The text format, version 0.0.4.", media=(TEXT,))}, store=False)
async def metrics(backend: Backend, _: Request) -> Response:
    """Counts of this moment for Prometheus.

    Without the store there are only those of this process, and `tailrace_store_up` is 0.
    """
    health: Health | None = None
    consumers: list[ConsumerPresence] = []
    backend.sampler.beat_watch.want(backend.presence)
    try:
        health = await take_health(backend.transitions, backend.platforms)
        consumers = await backend.presence.see()
    except StoreError:
        health = None
    live, narrowed = backend.live, isinstance(backend.platforms, Narrowed)
    watched = live.count_of(backend.platforms)
    counts = ProcessCounts(backend.settings.process, watched, None if narrowed else live.counters)
    text = GatewayMetrics(health, consumers, counts).text()
    return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
