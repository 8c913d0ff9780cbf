"""The whole URL map, and what stands behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.feed import Feed
from gateway.history import History
from gateway.jobs import Jobs
from gateway.live import Live
from gateway.replies import HANDLERS, reply
from gateway.settings import GatewaySettings
from gateway.sse import Streams
from gateway.submissions import Submissions
from producers import Producer
from streams import Store, Transitions
from streams.connection import check_fitness
from streams.errors import NoStore

WELCOME = """Tailrace serves here. Try

    curl -s -X POST -H 'Content-Type: application/json' -d '{"query": "tides"}' %(url)sresearch/start
    curl -s %(url)sapi/v2/jobs/running
"""


def create_app(settings: GatewaySettings) -> Starlette:
    """One gateway: its store, its live channels, and a route for each question."""
    if settings.streams.url is None:
        raise NoStore("no store is known: run `python3 -m ops up`, which brings its own, or set REDIS_URL")
    store = Store(settings.streams.url)
    transitions = Transitions(store)
    platforms = settings.streams.platforms
    live = Live(store)
    feed = Feed(store, platforms, live)
    submissions = Submissions(Producer(transitions, platforms))
    jobs = Jobs(store, transitions, platforms)
    history = History(store, jobs)
    streams = Streams(live, jobs, settings.ping_seconds)

    async def healthz(_: Request) -> Response:
        return reply({"status": "ok"})

    async def readyz(_: Request) -> Response:
        return reply({"status": "ready", "advice": await check_fitness(store)})

    async def welcome(request: Request) -> Response:
        return PlainTextResponse(WELCOME % {"url": request.base_url})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.live = live
        async with store, anyio.create_task_group() as tasks:
            tasks.start_soon(live.run)
            tasks.start_soon(feed.run)
            yield
            tasks.cancel_scope.cancel()

    app = Starlette(
        routes=[
            Route("/", welcome),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/research/start", submissions.research, methods=["POST"]),
            Route("/research/stream/{job_id}", streams.stream),
            Route("/research/history/{job_id}", history.show),
            Route("/api/jobs", submissions.job, methods=["POST"]),
            Route("/api/jobs/bulk", submissions.jobs, methods=["POST"]),
            Route("/api/jobs/{job_id}", jobs.show),
            Route("/api/jobs/{job_id}/cancel", jobs.cancel, methods=["POST"]),
            Route("/api/v2/workflows/execute", submissions.workflow, methods=["POST"]),
            Route("/api/v2/jobs/running", jobs.running),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.history = history
    return app
