"""This gateway itself: alive, ready, and the store behind it."""

from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tailrace.gateway.access.reach import Narrowed
from tailrace.gateway.backend import Backend
from tailrace.gateway.etags import send
from tailrace.gateway.openapi import forms
from tailrace.gateway.replies import MOUNTED_AT
from tailrace.gateway.route_table import IF_NONE_MATCH, PUBLIC, READ, UNCHANGED, Answer, group, ok
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.server import NodeInfo, read_nodes, read_server
from tailrace.streams.words import Count, PlatformName

route = group("process")


class Alive(Struct, frozen=True):
    status: Literal["ok"]


class Ready(Struct, frozen=True):
    """`advice`: advice about the store, in sentences."""

    status: Literal["ready"]
    advice: list[str]


class NodeSeen(Struct, frozen=True):
    """A node of a cluster."""

    address: str
    down: str | None  # why it does not answer
    memoryBytes: Count | None
    memoryLimitBytes: Count | None
    replicas: Count | None
    platforms: list[PlatformName]


class StoreSeen(Struct, frozen=True):
    """The store, and how full it is; null for a key that is limited to platforms."""

    server: str
    version: str
    memoryBytes: Count | None
    memoryLimitBytes: Count | None
    nodes: list[NodeSeen] | None = None  # of a cluster


@route("GET", "/healthz", PUBLIC, ok("It is alive.", Alive, None), store=False)
async def is_alive(_: Backend, __: Request) -> Alive:
    """Whether the process is alive."""
    return Alive("ok")


@route("GET", "/readyz", PUBLIC, ok("It is ready.", Ready, None))
async def is_ready(backend: Backend, _: Request) -> Ready:
    """Whether the store answers and is fit."""
    return Ready("ready", await check_fitness(backend.store, "gateway"))


@route("GET", "/api/store", READ, ok("The store.", StoreSeen))
async def show_store(backend: Backend, _: Request) -> StoreSeen:
    """The store behind this gateway."""
    store = backend.store
    server = await read_server(store)
    if isinstance(backend.platforms, Narrowed):  # the memory of the store holds every platform
        return StoreSeen(server.name, server.version, None, None)
    if not store.clustered:
        return StoreSeen(server.name, server.version, server.memory_bytes, server.memory_limit_bytes)
    has: dict[str, list[str]] = {}
    for platform in backend.platforms:
        has.setdefault((await store.node_of(platform)).name, []).append(platform)
    nodes = [node_seen(node, has.get(node.address, [])) for node in await read_nodes(store)]
    limits = [node.memoryLimitBytes for node in nodes]
    return StoreSeen(
        server.name,
        server.version,
        sum(node.memoryBytes or 0 for node in nodes),
        sum(filter(None, limits)) if all(limits) else None,
        nodes,
    )


def node_seen(node: NodeInfo, platforms: list[str]) -> NodeSeen:
    if node.down:
        return NodeSeen(node.address, node.down, None, None, None, platforms)
    return NodeSeen(node.address, None, node.memory_bytes, node.memory_limit_bytes or None, node.replicas, platforms)


@route(
    "GET",
    "/openapi.json",
    PUBLIC,
    {200: Answer("OpenAPI 3.1.", dict[str, Any], headers=("ETag",)), 304: UNCHANGED},
    asks=(IF_NONE_MATCH,),
    store=False,
)
async def document(backend: Backend, request: Request) -> Response:
    """This document."""
    settings = backend.settings
    known = forms(bool(settings.keys), settings.streams.builtins, MOUNTED_AT.get())
    return send(request, known, {"Cache-Control": "no-cache"})
