"""The measures of `bench`: each does one kind of work on its own platform and returns figures."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import anyio
import msgspec
from msgspec import Struct

from tailrace.ops.bench import jobs as benchjobs
from tailrace.ops.bench.figures import Figure, rate, spread
from tailrace.ops.bench.live_clients import Deliveries, open_clients
from tailrace.ops.bench.workbench import CONCURRENCY, HOST, Pace, Workbench
from tailrace.producers import Producer, Submission
from tailrace.streams.errors import TailraceError
from tailrace.streams.functions import Script
from tailrace.streams.history.events import decode_event
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.replies import read_job, read_record
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.transitions import Transitions

PAYLOAD = {"url": "https://shop.example/p/123456", "page": 1, "shop": "oliveyoung"}  # about 70 bytes as JSON
PAGE = 1000  # jobs submitted, or read, in one call of ours
ROUNDS = 10  # of what this process alone does; the best one counts
WORK_SECONDS = 15.0  # a consumer is watched for at most this long
WARM_UP = 10  # jobs before start latency is measured: the first ones also load scripts and open connections
GAP_SECONDS = 0.02  # between events and between lone jobs: time enough to be idle again

TRIVIAL = Script("return 1", hashlib.sha1(b"return 1", usedforsecurity=False).hexdigest(), {})


class Extent(Struct, frozen=True):
    """How much is done: counts and times are limits."""

    seconds: float = 2.0  # for each rate that this process alone makes
    jobs: int = 40_000  # no-op jobs submitted in bulk, and drained
    reporting: int = 4_000  # jobs that report
    starts: int = 200  # lone jobs
    pace: Pace = Pace(
        beat=0.5, deadline=3.0, reap=0.5
    )  # of the consumer that is killed, and of the one that takes over
    clients: int = 200
    paced: int = 150  # events for the delay of a calm stream
    hot: int = 5_000  # events as fast as they can be written


QUICK = Extent(
    seconds=0.2,
    jobs=2_000,
    reporting=500,
    starts=20,
    pace=Pace(beat=0.2, deadline=1.0, reap=0.2),
    clients=50,
    paced=20,
    hot=500,
)


class Bench:
    """The objects that a measure uses."""

    def __init__(self, workbench: Workbench, store: Store, extent: Extent) -> None:
        self.workbench = workbench
        self.store = store
        self.extent = extent
        self.producer = Producer(Transitions(store), workbench.platforms)

    async def submit(self, keys: PlatformKeys, kind: str, args: Any) -> str:
        """The key of a job."""
        return split_id((await self.producer.submit(Submission(keys.platform, kind, args))).id)[1]

    async def fill(self, keys: PlatformKeys, kind: str, count: int) -> list[str]:
        """The keys of many jobs."""
        job_keys = []
        for first in range(0, count, PAGE):
            submissions = [Submission(keys.platform, kind, PAYLOAD)] * min(PAGE, count - first)
            for answer in await self.producer.submit_many(submissions):
                if isinstance(answer, Exception):
                    raise answer
                job_keys.append(split_id(answer.id)[1])
        return job_keys

    async def empty(self, keys: PlatformKeys) -> bool:
        """Whether all jobs have ended: a job's entry stays in the line until then."""
        return bool(await self.store.command("XLEN", keys.jobs("normal")) == 0)

    async def beating(self, keys: PlatformKeys, consumers: int = 1) -> None:
        async def look() -> bool:
            return bool(await self.store.command("HLEN", keys["beats"]) == consumers)

        await self.workbench.until("the consumer did not beat", look)

    async def work(self, keys: PlatformKeys, job_keys: Sequence[str]) -> tuple[int, float]:
        """Have these jobs done by one consumer; how many it did, and in how many seconds.

        The time is the store's: from the first start to the last end. Nothing is disturbed to take it.
        """
        with self.workbench.consumer(keys):
            await self.workbench.within(WORK_SECONDS, lambda: self.empty(keys))
        starts, ends = [], []
        for first in range(0, len(job_keys), PAGE):
            page = job_keys[first : first + PAGE]
            commands = [("HMGET", keys.record(key), "started", "ended_ms") for key in page]
            for started, ended in await self.store.commands(commands):
                if ended:
                    starts.append(int(started.partition(b"-")[2][:13]))
                    ends.append(int(ended))
        if not ends:
            raise TailraceError(f"the consumer did no job in {WORK_SECONDS:g} s")
        return len(ends), max(1, max(ends) - min(starts)) / 1000

    async def began(self, keys: PlatformKeys, key: str) -> float:
        """The start of the last attempt at a job by our clock, which its handler returned."""
        _, events = await read_job(self.store, keys, key)
        return float(decode_event(events[-1]).result / 1e9)


async def best(bench: Bench, *calls: Callable[[], Awaitable[object]], most: int = 1_000_000) -> list[tuple[int, float]]:
    """Make each call again and again; how often, and in how many seconds, in its best round.

    The calls take turns. The best round counts, because what slows a round down (the kernel moves us to another
    processor, other programs run) is not ours and not the store's.
    """
    rounds: list[list[tuple[int, float]]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, took in zip(calls, rounds, strict=True):
            took.append(await repeat(call, bench.extent.seconds / ROUNDS, max(1, most // ROUNDS)))
    return [max(took, key=lambda round: round[0] / round[1]) for took in rounds]


async def repeat(call: Callable[[], Awaitable[object]], seconds: float, most: int) -> tuple[int, float]:
    began = now = time.monotonic()
    count = 0
    while count < most and now - began < seconds:
        await call()
        count += 1
        now = time.monotonic()
    return count, now - began


async def raw(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    store = bench.store
    entries = [("XADD", keys.jobs("normal"), "MAXLEN", "~", PAGE, "*", "id", "raw", "args", "x" * 70)] * 100
    await store.run(TRIVIAL, [], [])  # from here on the server knows it
    ping, script, (pages, seconds) = await best(
        bench, lambda: store.command("PING"), lambda: store.run(TRIVIAL, [], []), lambda: store.commands(entries)
    )
    return [
        rate("raw.ping", "PING, one by one on one connection", "commands/s", *ping),
        rate("raw.script", "a script that does nothing, one by one", "calls/s", *script),
        rate("raw.xadd", f"XADD, {len(entries)} in a pipeline", "commands/s", pages * len(entries), seconds),
    ]


async def submit(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    ((count, seconds),) = await best(bench, lambda: bench.submit(keys, "noop", PAYLOAD), most=bench.extent.jobs)
    return [rate("submit", "submit, one by one", "jobs/s", count, seconds, beside="raw.script")]


async def bulk(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    most = bench.extent.jobs // PAGE
    ((pages, seconds),) = await best(bench, lambda: bench.fill(keys, "noop", PAGE), most=most)
    return [rate("bulk", f"submit_many, {PAGE:,} at a time", "jobs/s", pages * PAGE, seconds, beside="raw.xadd")]


async def drain(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    count, seconds = await bench.work(keys, await bench.fill(keys, "noop", bench.extent.jobs))
    what = f"{count:,} jobs that do nothing, {CONCURRENCY} at a time"
    return [rate("drain", what, "jobs/s", count, seconds, beside="raw.xadd")]


async def progress(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    count, seconds = await bench.work(keys, await bench.fill(keys, "steps", bench.extent.reporting))
    what = f"progress of {count:,} jobs, {benchjobs.STEPS} steps each"
    return [rate("progress", what, "events/s", count * benchjobs.STEPS, seconds, beside="raw.xadd")]


async def latency(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    asked = {}
    with bench.workbench.consumer(keys):
        await bench.beating(keys)
        for _ in range(WARM_UP + bench.extent.starts):
            now = time.monotonic()
            asked[await bench.submit(keys, "stamp", PAYLOAD)] = now
            await anyio.sleep(GAP_SECONDS)
        await bench.workbench.until("some jobs had not ended", lambda: bench.empty(keys))
    delays = [1000 * (await bench.began(keys, key) - at) for key, at in asked.items()][WARM_UP:]
    return [spread("latency", f"submit to the handler's start, {len(delays)} lone jobs", "ms", delays)]


async def recovery(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    pace = bench.extent.pace

    async def running() -> bool:
        return (await read_record(bench.store, keys, key)).owner is not None

    with bench.workbench.consumer(keys, "a", pace) as a, bench.workbench.consumer(keys, "b", pace) as b:
        await bench.beating(keys, 2)
        key = await bench.submit(keys, "hold", PAYLOAD)
        await bench.workbench.until("the job had not started", running)
        await anyio.sleep(2 * pace.beat)  # into the job: its lease has been beaten for
        owner = (await read_record(bench.store, keys, key)).owner or ""
        killed = time.monotonic()
        (a if owner.startswith("a.") else b).kill()
        await bench.workbench.until("the job was not taken over and ended", lambda: bench.empty(keys))
    what = f"kill -9 to the next attempt (deadline {pace.deadline:g} s, look every {pace.reap:g} s)"
    return [Figure("recovery", what, "s", value=round(await bench.began(keys, key) - killed, 3))]


async def sse(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    extent = bench.extent
    calm = benchjobs.Broadcast(rounds=extent.paced, together=1, pause_seconds=GAP_SECONDS)
    hot = benchjobs.Broadcast(rounds=extent.hot // 50, together=50, pause_seconds=0)
    with bench.workbench.gateway() as port:
        await bench.workbench.ready(port)
        calm_seen = await broadcast(bench, keys, port, calm)
        hot_seen = await broadcast(bench, keys, port, hot)
    who = f"{extent.clients} live clients of one job"
    pace = f"{extent.clients / GAP_SECONDS:,.0f} deliveries/s"
    return [
        spread("sse.delay", f"{who}, report to arrival at {pace}", "ms", calm_seen.delays_ms),
        rate("sse.hot", f"{who}, as fast as it goes", "deliveries/s", hot_seen.count, hot_seen.seconds),
    ]


async def broadcast(bench: Bench, keys: PlatformKeys, port: int, todo: benchjobs.Broadcast) -> Deliveries:
    """One job and its live clients. It waits for its consumer until every client is there."""
    key = await bench.submit(keys, "broadcast", msgspec.to_builtins(todo))
    async with open_clients((HOST, port), keys.id(key), bench.extent.clients) as clients:
        with bench.workbench.consumer(keys), anyio.move_on_after(WORK_SECONDS):
            await clients.to_the_end()
    if not clients.deliveries.count:
        raise TailraceError(f"nothing reached the live clients in {WORK_SECONDS:g} s")
    return clients.deliveries


async def memory(bench: Bench, keys: PlatformKeys) -> list[Figure]:
    count = bench.extent.reporting
    empty = await used_bytes(bench, keys)
    job_keys = await bench.fill(keys, "steps", count)
    some = await used_bytes(bench, keys)  # the buffers and scripts of the store are there by now
    job_keys += await bench.fill(keys, "steps", count)
    waiting = await used_bytes(bench, keys) - some
    done, _ = await bench.work(keys, job_keys)
    await bench.store.command("DEL", keys["events"])  # the live feed is capped: it belongs to no job
    ended = await used_bytes(bench, keys) - empty
    what = f"memory of an ended job, {benchjobs.STEPS} steps reported"
    return [
        Figure("memory.waiting", "memory of a waiting job", "bytes", value=round(waiting / count, 1)),
        Figure("memory.ended", what, "bytes", value=round(ended / done, 1)),
    ]


async def used_bytes(bench: Bench, keys: PlatformKeys) -> int:
    """The memory of a platform's server, after it has freed deleted keys."""
    fields: dict[str, str] = {}
    node = await bench.store.node_of(keys.platform)

    async def calm() -> bool:
        fields.update(info_fields(await node.command("INFO", "memory")))
        return fields.get("lazyfree_pending_objects", "0") == "0"

    await bench.workbench.until("the store had not freed what was deleted", calm)
    return int(fields["used_memory"])


class Measure(NamedTuple):
    what: str
    take: Callable[[Bench, PlatformKeys], Awaitable[list[Figure]]]


MEASURES = {
    "raw": Measure("what this store can do at all", raw),
    "submit": Measure("jobs submitted one by one", submit),
    "bulk": Measure("jobs submitted many at a time", bulk),
    "drain": Measure("jobs that do nothing, by one consumer process", drain),
    "progress": Measure("progress that jobs report", progress),
    "latency": Measure("from submit to start on an idle consumer", latency),
    "recovery": Measure("from kill -9 of a consumer to the next attempt", recovery),
    "sse": Measure("live events to many clients of one gateway process", sse),
    "memory": Measure("what a job costs of the store's memory", memory),
}
