"""The application: every route of the table, with its store, its streams and its middleware."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace
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
from tailrace.producers.policies import Policies, watch_all
from tailrace.streams import Transitions
from tailrace.streams.errors import NoStore, TailraceError
from tailrace.streams.policies import Platforms
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.store.kept_policies import LOOK_SECONDS

__all__ = ["TABLE", "create_app"]


def create_app(settings: GatewaySettings) -> Starlette:
    """One gateway: its store, its live channels, and a route for each question."""
    url = settings.streams.url
    if url is None:
        raise NoStore(f"no store is known: run `{PROGRAM} up`, which starts one, or set REDIS_URL")
    platforms = Platforms(settings.streams.platforms)  # from here on it follows what the store has
    settings = replace(settings, streams=replace(settings.streams, platforms=platforms))
    store = settings.streams.open(url)
    live = Live(store)
    feed = Feed(store, platforms, live)
    sampler = Sampler(Transitions(store), platforms)
    fitness = Fitness(store, "gateway")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.live = live
        async with store, anyio.create_task_group() as tasks:
            tasks.start_soon(live.run)
            tasks.start_soon(live.look, settings.ping_seconds)
            tasks.start_soon(feed.run)
            tasks.start_soon(sampler.run)
            tasks.start_soon(fitness.run)
            tasks.start_soon(follow_policies)
            yield
            tasks.cancel_scope.cancel()

    order = list(GROUPS)  # the router looks at one route after the other, and those that bring work stand first
    served = [said for said in TABLE.values() if settings.streams.builtins or not said.builtin]
    rows = sorted(served, key=lambda said: order.index(said.group))

    def over(seen: Platforms, lifespan: Lifespan[Starlette] | None = None) -> Application:
        """The routes, limited to these platforms."""
        backend = Backend(settings, store, live, sampler, fitness, seen)
        served = [Served(said, backend) for said in rows]
        app = Starlette(routes=served, exception_handlers=HANDLERS, lifespan=lifespan)
        app.router.redirect_slashes = False
        return Application(app, short_cut(backend, app))

    async def follow_policies() -> None:
        policies = Policies(Transitions(store), platforms)
        while True:
            try:
                await policies.begin(settings.streams)
                break
            except TailraceError:  # the store is away, or refuses writes
                await anyio.sleep(LOOK_SECONDS)
        renew()
        await watch_all(store, settings.streams, lambda _: renew()).run()

    def renew() -> None:
        for each in narrowed.values():
            each.renew()

    app, front = application = over(platforms, lifespan)
    narrowed = {names: Narrowed(platforms, names) for names in settings.keys.limited_to}
    if settings.keys:
        applications: dict[frozenset[str] | None, Application] = {None: application}
        applications.update({names: over(each) for names, each in narrowed.items()})
        front = Guard(settings.keys, store, Limits(settings.caps), settings.origins).stand_before(applications)
    front = Budget(front, settings.caps.body_bytes)
    front = Sharing(front, settings.origins) if settings.origins else front
    app.state.front = CountedAnswers(front, live.counters)
    return app
