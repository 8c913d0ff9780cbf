"""The whole URL map, and what stands behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from tailrace.gateway.access.api_keys import Narrowed
from tailrace.gateway.access.guard import Guard
from tailrace.gateway.access.limits import Budget, Limits
from tailrace.gateway.access.origins import Sharing
from tailrace.gateway.access.tickets import Sessions, Tickets
from tailrace.gateway.documents.openapi import OpenApi
from tailrace.gateway.live.all_jobs import Everything
from tailrace.gateway.live.feed import Feed
from tailrace.gateway.live.job_stream import Streams
from tailrace.gateway.live.live import Live
from tailrace.gateway.replies import HANDLERS, reply
from tailrace.gateway.routes.args import Args
from tailrace.gateway.routes.history import History
from tailrace.gateway.routes.jobs import Jobs
from tailrace.gateway.routes.metrics import Metrics
from tailrace.gateway.routes.pages import Pages
from tailrace.gateway.routes.plans import Plans
from tailrace.gateway.routes.platforms import PlatformRoutes
from tailrace.gateway.routes.schedules import ScheduleRoutes
from tailrace.gateway.routes.store import Storage
from tailrace.gateway.routes.submissions import Submissions
from tailrace.gateway.routes.trends import Sampler, Trends
from tailrace.gateway.routes.workers import Workers
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers import Producer
from tailrace.producers.schedules import Schedules
from tailrace.streams import Store, Transitions
from tailrace.streams.errors import NoStore
from tailrace.streams.policies import Platforms
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.store.fitness import Fitness, check_fitness
from tailrace.streams.views.presence import Presence


def create_app(settings: GatewaySettings) -> Starlette:
    """One gateway: its store, its live channels, and a route for each question."""
    if settings.streams.url is None:
        raise NoStore(f"no store is known: run `{PROGRAM} up`, which brings its own, or set REDIS_URL")
    store = Store(settings.streams.url)
    platforms = settings.streams.platforms
    live = Live(store)
    feed = Feed(store, platforms, live)
    sampler = Sampler(Transitions(store), platforms)
    fitness = Fitness(store)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.live = live
        async with store, anyio.create_task_group() as tasks:
            tasks.start_soon(live.run)
            tasks.start_soon(live.look, settings.ping_seconds)
            tasks.start_soon(feed.run)
            tasks.start_soon(sampler.run)
            tasks.start_soon(fitness.run)
            yield
            tasks.cancel_scope.cancel()

    app = answering(settings, store, live, sampler, fitness, platforms, lifespan)
    front = app.state.history.in_front_of(app)
    if settings.keys:
        limited = {names: Narrowed(platforms, names) for names in settings.keys.limited_to}
        narrowed = {names: answering(settings, store, live, sampler, fitness, limited[names]) for names in limited}
        guard = Guard(settings.keys, store, Limits(settings.caps), settings.origins)
        front = guard.stand_before(app, front, narrowed)
    front = Budget(front, settings.caps.body_bytes)
    app.state.front = Sharing(front, settings.origins) if settings.origins else front
    return app


def answering(
    settings: GatewaySettings,
    store: Store,
    live: Live,
    sampler: Sampler,
    fitness: Fitness,
    platforms: Platforms,
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """The URL map over these platforms: of others it does not know."""
    transitions = Transitions(store)
    producer = Producer(transitions, platforms, fitness, settings.kinds)
    submissions = Submissions(producer)
    plans = Plans(producer)
    presence = Presence(transitions, platforms)
    jobs = Jobs(store, transitions, platforms, presence)
    args = Args(store, jobs)
    about = PlatformRoutes(store, transitions, platforms, presence)
    workers = Workers(transitions, platforms, presence, settings.streams.platforms.keys() - platforms.keys())
    trends = Trends(sampler, platforms)
    storage = Storage(store, platforms)
    metrics = Metrics(store, platforms, presence, live, settings.process)
    schedules = ScheduleRoutes(Schedules(transitions, platforms, settings.kinds))
    history = History(store, jobs)
    streams = Streams(live, jobs, settings.ping_seconds)
    pages = Pages(locked=bool(settings.keys))
    openapi = OpenApi(locked=bool(settings.keys))
    everything = Everything(live, platforms, settings.ping_seconds)
    tickets = Tickets(store, jobs)
    sessions = Sessions(store, settings.keys, settings.origins, settings.kinds)

    async def healthz(_: Request) -> Response:
        return reply({"status": "ok"})

    async def readyz(_: Request) -> Response:
        return reply({"status": "ready", "advice": await check_fitness(store)})

    app = Starlette(
        routes=[
            Route("/", pages.welcome),
            Route("/jobs/{job_id}", pages.job),
            Route("/page/{name}", pages.file),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics.show),
            Route("/openapi.json", openapi.show),
            Route("/api/session", sessions.show),
            Route("/api/session", sessions.open, methods=["POST"]),
            Route("/api/session", sessions.close, methods=["DELETE"]),
            Route("/api/tickets", tickets.issue, methods=["POST"]),
            Route("/research/start", submissions.research, methods=["POST"]),
            Route("/research/stream/{job_id}", streams.stream),
            Route("/research/history/{job_id}", history.show),
            Route("/api/events", everything.stream),
            Route("/api/jobs", submissions.job, methods=["POST"]),
            Route("/api/jobs/bulk", submissions.jobs, methods=["POST"]),
            Route("/api/jobs/{job_id}", jobs.show),
            Route("/api/jobs/{job_id}", jobs.drop, methods=["DELETE"]),
            Route("/api/jobs/{job_id}/args", args.show),
            Route("/api/jobs/{job_id}/steps", args.steps),
            Route("/api/jobs/{job_id}/cancel", jobs.cancel, methods=["POST"]),
            Route("/api/jobs/{job_id}/retry", jobs.retry, methods=["POST"]),
            Route("/api/jobs/{job_id}/drop", jobs.drop, methods=["POST"]),
            Route("/api/store", storage.show),
            Route("/api/trends", trends.show),
            Route("/api/dead", about.errors),
            Route("/api/platforms", about.list),
            Route("/api/platforms/{platform}", about.show),
            Route("/api/platforms/{platform}/jobs", about.jobs),
            Route("/api/platforms/{platform}/dead", about.dead),
            Route("/api/platforms/{platform}/replay", about.replay, methods=["POST"]),
            Route("/api/platforms/{platform}/drop", about.drop, methods=["POST"]),
            Route("/api/platforms/{platform}/pause", about.pause, methods=["POST"]),
            Route("/api/platforms/{platform}/resume", about.resume, methods=["POST"]),
            Route("/api/platforms/{platform}/schedules", schedules.list),
            Route("/api/platforms/{platform}/schedules", schedules.upsert, methods=["POST"]),
            Route("/api/platforms/{platform}/schedules/{name}", schedules.show),
            Route("/api/platforms/{platform}/schedules/{name}", schedules.upsert, methods=["POST"]),
            Route("/api/platforms/{platform}/schedules/{name}", schedules.remove, methods=["DELETE"]),
            Route("/api/platforms/{platform}/schedules/{name}/pause", schedules.pause, methods=["POST"]),
            Route("/api/platforms/{platform}/schedules/{name}/resume", schedules.resume, methods=["POST"]),
            Route("/api/plans", plans.plan, methods=["POST"]),
            Route("/api/materials/complete-upload", plans.material, methods=["POST"]),
            Route("/api/v2/workflows/execute", submissions.workflow, methods=["POST"]),
            Route("/api/v2/jobs/running", jobs.running),
            Route("/api/v2/workers/status", workers.status),
            Route("/api/v2/workers/{platform}/restart", workers.restart, methods=["POST"]),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.history = history
    return app
