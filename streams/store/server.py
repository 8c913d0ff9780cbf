"""Facts about the server: version, memory, persistence, clock, replicas."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from tailrace.streams.errors import StoreError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.node import Node

WRITES = ("aof_last_write_status", "aof_last_bgrewrite_status")  # what INFO says about the append-only file


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
    """One server of the store, as it answered a moment ago; of one that is down, why."""

    address: str
    now_ms: int = 0
    trip_seconds: float = 0.0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0  # 0: as much as the machine has
    replicas: int = 0  # that are connected
    evicts: bool = False
    keeps_file: bool = True  # an append-only file
    failing: tuple[str, ...] = ()  # what it says of its writes to disk, where that is not `ok`
    down: str | None = None


async def read_nodes(store: Store) -> list[NodeInfo]:
    """Every node of a cluster, or the one server. Raises `StoreError` when no node is known."""
    nodes = await store.nodes()

    async def read(node: Node) -> NodeInfo:
        try:
            return await (node.glance(partial(read_node, node)) if len(nodes) > 1 else read_node(node))
        except StoreError as error:
            return NodeInfo(node.name, down=str(error))

    return list(await asyncio.gather(*map(read, nodes)))


async def read_node(node: Node) -> NodeInfo:
    if not node.is_open:
        await node.command("PING")
    begun = time.perf_counter()
    clock = await node.command("TIME")
    trip_seconds = time.perf_counter() - begun
    sections = await node.commands([("INFO", section) for section in ("memory", "persistence", "replication")])
    memory, persistence, replication = map(info_fields, sections)
    return NodeInfo(
        address=node.name,
        now_ms=to_ms(clock),
        trip_seconds=trip_seconds,
        memory_bytes=int(memory.get("used_memory", 0)),
        memory_limit_bytes=int(memory.get("maxmemory", 0)),
        replicas=int(replication.get("connected_slaves", 0)),
        evicts=memory.get("maxmemory_policy", "noeviction") != "noeviction",
        keeps_file=persistence.get("aof_enabled") == "1",
        failing=tuple(name for name in WRITES if persistence.get(name, "ok") != "ok"),
    )


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
    """The answer of TIME in milliseconds."""
    return int(clock[0]) * 1000 + int(clock[1]) // 1000
