"""This gateway itself: whether it lives, whether it can work, and the store behind it."""

from typing import Literal

from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.route_table import PUBLIC, READ, group, ok
from tailrace.streams.policies import Platforms
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.server import read_server
from tailrace.streams.words import Count

route = group("process")


class Alive(Struct, frozen=True):
    status: Literal["ok"]


class Ready(Struct, frozen=True):
    """`advice`: what could be better about the store, in sentences."""

    status: Literal["ready"]
    advice: list[str]


class StoreSeen(Struct, frozen=True):
    """Which server holds everything, and how full it is; null for a key that does not see all that is in it."""

    server: str
    version: str
    memoryBytes: Count | None
    memoryLimitBytes: Count | None


class ProcessRoutes:
    """The routes for whatever starts and watches this process."""

    def __init__(self, store: Store, platforms: Platforms) -> None:
        self._store = store
        self._sees_all = not isinstance(platforms, Narrowed)  # the memory of the store holds every platform

    @route("GET", "/healthz", PUBLIC, ok("It lives.", Alive, None), store=False)
    async def is_alive(self, _: Request) -> Alive:
        """Whether the process lives."""
        return Alive("ok")

    @route("GET", "/readyz", PUBLIC, ok("It is ready.", Ready, None))
    async def is_ready(self, _: Request) -> Ready:
        """Whether the store answers and is fit."""
        return Ready("ready", await check_fitness(self._store))

    @route("GET", "/api/store", READ, ok("The store.", StoreSeen))
    async def show_store(self, _: Request) -> StoreSeen:
        """The store behind this gateway."""
        server = await read_server(self._store)
        if not self._sees_all:
            return StoreSeen(server.name, server.version, None, None)
        return StoreSeen(server.name, server.version, server.memory_bytes, server.memory_limit_bytes)
