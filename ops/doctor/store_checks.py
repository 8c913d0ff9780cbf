"""The doctor's checks of the server itself."""

import shutil
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tailrace.ops.doctor.finding import Finding, advice, wrong
from tailrace.ops.doctor.known_bad import check_version
from tailrace.streams.errors import AccessDenied, NoStore, UnfitStore
from tailrace.streams.store.connection import ServerRefusal, Store, info_fields
from tailrace.streams.store.fitness import check_fitness
from tailrace.streams.store.server import NodeInfo, read_server
from tailrace.streams.transitions import Transitions

PINGS = 20
SLOW_MS = 20.0  # for a ping; a job takes a handful of trips
SKEW_SECONDS = 1.0
FULL_SHARE, FILLING_SHARE = 0.9, 0.8  # of maxmemory
FULL_DISK, FILLING_DISK = 100_000_000, 1_000_000_000  # bytes that are free


async def check_store(
    store: Store, folder: Path | None = None, nodes: Sequence[NodeInfo] = ()
) -> AsyncIterator[Finding]:
    """One finding for each check. Raises `NoStore` when the store does not answer.

    `folder`: where `up` keeps this store, if it does; `nodes`: of a cluster.
    """
    facts, server = info_fields(await store.command("INFO")), await read_server(store)
    yield Finding("server", f"{server.name} {server.version}, up for {int(facts.get('uptime_in_seconds', 0)):,} s")
    for finding in check_version(server.name, server.version):
        yield finding
    yield await check_latency(store)
    try:
        notes = await check_fitness(store, "operator")
    except (UnfitStore, AccessDenied) as error:
        yield wrong("fitness", str(error))
    else:
        yield Finding("fitness", "it evicts nothing, takes writes and knows every command")
        for note in notes:
            yield advice("fitness", note)
    for node in nodes:
        yield about_node(node)
    yield check_memory(facts)
    yield check_persistence(facts)
    if facts.get("aof_enabled") == "1":
        yield await check_default_user(store)
    if folder:
        yield check_disk(folder, facts)
    try:
        await Transitions(store).tally([store.keys("default")])
    except NoStore as error:
        if not nodes:
            raise
        yield advice("scripts", f"the node of the platform default could not be asked to run one: {error}")
    else:
        yield Finding("scripts", "they run")
    yield await check_clock(store)


def about_node(node: NodeInfo) -> Finding:
    if node.down:
        return wrong("node", f"{node.address} does not answer, and jobs of its platforms wait: {node.down}")
    limit, trip_ms = node.memory_limit_bytes, 1000 * node.trip_seconds
    used = f"{node.memory_bytes / 1e6:,.0f} MB used{f' of {limit / 1e6:,.0f} MB' if limit else ''}"
    says = f"{node.address}: a trip takes {trip_ms:.2f} ms, {used}, replicas: {node.replicas}"
    full = limit and node.memory_bytes > FILLING_SHARE * limit
    return advice("node", says, "give it more memory, or move slots to another node") if full else Finding("node", says)


async def check_latency(store: Store) -> Finding:
    took = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        await store.command("PING")
        took.append(1000 * (time.perf_counter() - begun))
    middle = statistics.median(took)
    says = f"a ping takes {middle:.2f} ms, the slowest of {PINGS} took {max(took):.2f} ms"
    if middle > SLOW_MS:
        return advice("latency", says, "look at SLOWLOG GET and LATENCY DOCTOR on the server")
    return Finding("latency", says)


def check_memory(facts: dict[str, str]) -> Finding:
    used, most = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    says = f"{used / 1e6:,.1f} MB in use, " + (f"{most / 1e6:,.1f} MB allowed" if most else "no limit set")
    if most and used > FULL_SHARE * most:
        return wrong("memory", f"{says}: when it is full, new jobs are refused", "raise maxmemory")
    if most and used > FILLING_SHARE * most:
        return advice("memory", f"{says}: from {FULL_SHARE:.0%} on it is nearly full", "raise maxmemory")
    return Finding("memory", says)


def check_disk(folder: Path, facts: dict[str, str]) -> Finding:
    """Whether the data folder of an own store has room: without it every write is refused until there is some."""
    free, file = shutil.disk_usage(folder).free, int(facts.get("aof_current_size", 0))
    says = f"{free / 1e6:,.0f} MB are free for {folder}"
    if free < FULL_DISK:
        return wrong("disk", f"{says}: when it is full, the store refuses every write", "make room on that disk")
    if free < max(FILLING_DISK, 2 * file):  # a rewrite of the append-only file needs as much again
        return advice("disk", says, "make room on that disk")
    return Finding("disk", says)


def check_persistence(facts: dict[str, str]) -> Finding:
    """Whether the data would survive a restart, as far as the server itself knows."""
    failing = [
        name
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        if facts.get(name, "ok") != "ok"
    ]
    if failing:
        return wrong(
            "persistence", f"the server reports {', '.join(failing)}", "look at its log and its free disk space"
        )
    if facts.get("aof_enabled") == "1":
        return Finding("persistence", f"append-only file, {int(facts.get('aof_current_size', 0)) / 1e6:,.1f} MB")
    return Finding("persistence", f"snapshots, {facts.get('rdb_changes_since_last_save')} changes since the last one")


async def check_default_user(store: Store) -> Finding:
    """Whether the append-only file could be read again: servers check what scripts wrote against the rights of the user
    `default` when they start, and drop it without a word if that user may not write it. Valkey stopped to do so in
    7.2.15 and 9.1.2."""
    try:
        said = await store.command("ACL", "DRYRUN", "default", "SET", store.keys("default")["control"], "x")
    except (AccessDenied, ServerRefusal):
        return Finding("users", "this user may not ask what the user `default` may do")
    if said in (b"OK", "OK"):
        return Finding("users", "the user `default` may write: a restart reads everything again")
    says = (
        "the user `default` may not write: when the server restarts, it drops all that scripts wrote, every job with it"
    )
    return wrong("users", says, "redis-cli ACL SETUSER default off resetpass '~*' '&*' +@all, then ACL SAVE")


async def check_clock(store: Store) -> Finding:
    begun, before = time.perf_counter(), time.time()
    seconds, microseconds = await store.command("TIME")
    middle = before + (time.perf_counter() - begun) / 2
    skew = int(seconds) + int(microseconds) / 1e6 - middle
    says = f"the store's clock is {abs(skew) * 1000:.0f} ms {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) > SKEW_SECONDS:
        return advice("clock", f"{says}; histories show the store's time, deadlines depend on neither")
    return Finding("clock", says)
