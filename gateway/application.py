"""The application: every route of the table, and what stands behind and before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.types import Lifespan

from tailrace.gateway.access.guard import Application, Guard
from tailrace.gateway.access.limits import Budget, Limits
from tailrace.gateway.access.origins import Sharing
from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.backend import Backend
from tailrace.gateway.live.feed import Feed
from tailrace.gateway.live.live import Live
from tailrace.gateway.metrics.counters import CountedAnswers
from tailrace.gateway.openapi import GROUPS
from tailrace.gateway.replies import HANDLERS
from tailrace.gateway.route_table import TABLE, Served
from tailrace.gateway.routes.events import short_cut
from tailrace.gateway.sampler import Sampler
from tailrace.gateway.settings import GatewaySettings
from tailrace.streams import Store, Transitions
from tailrace.streams.errors import NoStore
from tailrace.streams.policies import Platforms
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.store.fitness import Fitness

__all__ = ["TABLE", "create_app"]


def create_app(settings: GatewaySettings) -> Starlette:
    """One gateway: its store, its live channels, and a route for each question."""
    if settings.streams.url is None:
        raise NoStore(f"no store is known: run `{PROGRAM} up`, which brings its own, or set REDIS_URL")
    store = Store(settings.streams.url, settings.streams.keyspace)
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

    order = list(GROUPS)  # the router looks at one route after the other, and those that bring work stand first
    served = [said for said in TABLE.values() if settings.streams.builtins or not said.builtin]
    rows = sorted(served, key=lambda said: order.index(said.group))

    def over(seen: Platforms, lifespan: Lifespan[Starlette] | None = None) -> Application:
        """Every route over these platforms: of others it does not know."""
        backend = Backend(settings, store, live, sampler, fitness, seen)
        served = [Served(said, backend) for said in rows]
        app = Starlette(routes=served, exception_handlers=HANDLERS, lifespan=lifespan)
        app.router.redirect_slashes = False
        return Application(app, short_cut(backend, app))

    app, front = application = over(platforms, lifespan)
    if settings.keys:
        applications: dict[frozenset[str] | None, Application] = {None: application}
        applications.update({names: over(Narrowed(platforms, names)) for names in settings.keys.limited_to})
        front = Guard(settings.keys, store, Limits(settings.caps), settings.origins).stand_before(applications)
    front = Budget(front, settings.caps.body_bytes)
    front = Sharing(front, settings.origins) if settings.origins else front
    app.state.front = CountedAnswers(front, live.counters)
    return app
