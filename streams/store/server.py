"""Which server stands behind us, how full it is, and what time it has."""

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct

from tailrace.streams.errors import StoreError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.node import Node


class ServerInfo(Struct, frozen=True):
    """A server as INFO tells it."""

    name: str  # valkey or redis
    version: str
    memory_bytes: int
    memory_limit_bytes: int | None  # None: as much as the machine has


async def read_server(store: Store) -> ServerInfo:
    about, memory = [info_fields(raw) for raw in await store.commands([("INFO", "server"), ("INFO", "memory")])]
    name = about.get("server_name", "redis")
    version = about.get(f"{name}_version") or about.get("redis_version", "")
    limit = int(memory.get("maxmemory", 0))
    return ServerInfo(name, version, int(memory.get("used_memory", 0)), limit or None)


class NodeInfo(Struct, frozen=True):
    """One server of the store; of one that is down, why."""

    address: str
    memory_bytes: int = 0
    memory_limit_bytes: int | None = None
    trip_ms: float = 0.0
    down: str | None = None


async def read_nodes(store: Store) -> list[NodeInfo]:
    """Every node of a cluster, or the one server."""
    return list(await asyncio.gather(*map(read_node, await store.nodes())))


async def read_node(node: Node) -> NodeInfo:
    try:
        await node.command("PING")  # it may have to connect first
        begun = time.perf_counter()
        memory = info_fields(await node.command("INFO", "memory"))
        trip_ms = 1000 * (time.perf_counter() - begun)
    except StoreError as error:
        return NodeInfo(node.name, down=str(error))
    limit = int(memory.get("maxmemory", 0))
    return NodeInfo(node.name, int(memory.get("used_memory", 0)), limit or None, trip_ms)


async def count_replicas(node: Node) -> int:
    """The replicas that are connected to a server."""
    return int(info_fields(await node.command("INFO", "replication")).get("connected_slaves", 0))


async def ping(store: Store) -> None:
    """Raises `StoreError` unless the server answers."""
    await store.command("PING")


async def read_clock(store: Store, keys: PlatformKeys) -> int:
    """The time of the server that has a platform, in milliseconds."""
    clock, _ = await store.commands([("TIME",), ("EXISTS", keys["control"])])
    return to_ms(clock)


def to_ms(clock: Sequence[bytes]) -> int:
    """What TIME answers, in milliseconds."""
    return int(clock[0]) * 1000 + int(clock[1]) // 1000
