"""The application: every route of the table, and what stands behind and before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.types import Lifespan

from tailrace.gateway.access.guard import Application, Guard
from tailrace.gateway.access.limits import Budget, Limits
from tailrace.gateway.access.origins import Sharing
from tailrace.gateway.access.reach import Narrowed, Reach
from tailrace.gateway.live.all_jobs import Everything
from tailrace.gateway.live.feed import Feed
from tailrace.gateway.live.job_stream import Streams
from tailrace.gateway.live.live import Live
from tailrace.gateway.openapi import OpenApi
from tailrace.gateway.replies import HANDLERS
from tailrace.gateway.route_table import TABLE, served_by
from tailrace.gateway.routes.acting import Acting
from tailrace.gateway.routes.args import ArgsRoutes
from tailrace.gateway.routes.dead_letters import DeadLetters
from tailrace.gateway.routes.history import History
from tailrace.gateway.routes.jobs import Jobs
from tailrace.gateway.routes.metrics import Metrics
from tailrace.gateway.routes.pages import Pages
from tailrace.gateway.routes.plans import PlanRoutes
from tailrace.gateway.routes.platforms import PlatformRoutes
from tailrace.gateway.routes.process import ProcessRoutes
from tailrace.gateway.routes.schedules import ScheduleRoutes
from tailrace.gateway.routes.sessions import Sessions, Tickets
from tailrace.gateway.routes.submissions import Submissions
from tailrace.gateway.routes.trends import Sampler, TrendRoutes
from tailrace.gateway.routes.workers import Workers
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers import Producer
from tailrace.producers.actions import Actions
from tailrace.producers.schedules import Schedules
from tailrace.streams import Store, Transitions
from tailrace.streams.errors import NoStore
from tailrace.streams.policies import Platforms
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.views.presence import Presence

__all__ = ["TABLE", "create_app"]


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

    def over(seen: Platforms, lifespan: Lifespan[Starlette] | None = None) -> Application:
        return routed(settings, store, live, sampler, fitness, seen, lifespan)

    app, front = application = over(platforms, lifespan)
    if settings.keys:
        applications: dict[frozenset[str] | None, Application] = {None: application}
        applications.update({names: over(Narrowed(platforms, names)) for names in settings.keys.limited_to})
        front = Guard(settings.keys, store, Limits(settings.caps), settings.origins).stand_before(applications)
    front = Budget(front, settings.caps.body_bytes)
    app.state.front = Sharing(front, settings.origins) if settings.origins else front
    return app


def routed(
    settings: GatewaySettings,
    store: Store,
    live: Live,
    sampler: Sampler,
    fitness: Fitness,
    platforms: Platforms,
    lifespan: Lifespan[Starlette] | None = None,
) -> Application:
    """Every route over these platforms: of others it does not know."""
    locked = bool(settings.keys)
    transitions = Transitions(store)
    actions = Actions(transitions, platforms)
    producer = Producer(transitions, platforms, fitness, settings.kinds)
    presence = Presence(transitions, platforms)
    reach = Reach(platforms)
    history = History(store, reach)
    subjects = (
        Submissions(producer),
        Jobs(store, transitions, platforms, presence),
        history,
        Streams(live, settings.ping_seconds),
        Everything(live, platforms, settings.ping_seconds),
        ArgsRoutes(store),
        Acting(actions),
        PlanRoutes(producer),
        PlatformRoutes(store, actions, platforms, presence),
        DeadLetters(store, transitions, actions, platforms),
        ScheduleRoutes(Schedules(transitions, platforms, settings.kinds)),
        Workers(actions, presence, settings.streams.platforms.keys() - platforms.keys()),
        TrendRoutes(sampler, platforms),
        Sessions(store, settings.keys, settings.kinds),
        Tickets(store, reach),
        Metrics(store, platforms, presence, live, settings.process),
        ProcessRoutes(store, platforms),
        OpenApi(locked=locked),
        Pages(locked=locked),
    )
    routes = [route for subject in subjects for route in served_by(subject, reach)]
    app = Starlette(routes=routes, exception_handlers=HANDLERS, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Application(app, history.in_front_of(app))
