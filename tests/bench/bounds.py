"""The slowest single call of a store that holds a lot, for each thing that people and processes do with it.

`bounds.py [--server PATH] [--waiting N] [--delayed N]`: fills a platform with waiting, delayed and running jobs of many
consumers, does one thing after the other to it, and prints the longest command that the server's SLOWLOG saw meanwhile,
and below it how often each kind of call took longer than is noted.
The bound is 5 ms. SLOWLOG also counts the time in which a command had to wait for a processor, so the server has one to
itself where there are two, and goes before all others there if that is allowed; how long it waited nevertheless, and
how much the machine lost to others on its host, is printed. What takes less than 2 ms is not noted: thousands of noted
commands, freed at once, would slow down the next call.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import uvloop
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Submission
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Options
from tailrace.streams.store.connection import Store
from tests.bench.named_calls import naming
from tests.support.crowd import FILL, OWNERS, RUNNING
from tests.support.deployment import Deployment
from tests.support.processes import Pace

PLATFORM = "crowded"
CONFIG = f"""\
[platforms.{PLATFORM}]
max_running_per_process = 128
keep_completed_seconds = 2
keep_failed_seconds = 2
attempts = 1
"""
SEEN_MICROSECONDS = 2000
MOST_ENTRIES = 1000
REST_SECONDS = 0.03  # between batches: from a SCHED_FIFO process that is always busy the kernel takes 50 ms a second
BOUND = 5.0  # milliseconds
BATCH = 5000
PACE = Pace(deadline=4.0, beat=0.5, reap=0.5)

MAKE_DUE = """
local keys = redis.call('ZRANGE', ARGV[1], 0, 4999)
for _, key in ipairs(keys) do
  redis.call('ZADD', ARGV[1], 'XX', 1, key)
end"""

READS = (
    "/api/platforms",
    f"/api/platforms/{PLATFORM}",
    f"/api/platforms/{PLATFORM}/jobs?state=waiting",
    f"/api/platforms/{PLATFORM}/jobs?state=active",
    f"/api/platforms/{PLATFORM}/jobs?state=delayed",
    f"/api/platforms/{PLATFORM}/jobs?state=failed",
    f"/api/platforms/{PLATFORM}/dead",
    f"/api/jobs/{PLATFORM}.w-700",
    f"/api/jobs/{PLATFORM}.d-700",
    f"/api/jobs/{PLATFORM}.job-700",
    f"/research/history/{PLATFORM}.job-700",
    "/api/v2/jobs/running",
    "/api/v2/workers/status",
    "/api/trends",
    "/api/store",
    "/metrics",
    "/readyz",
)


class Waits(Struct, frozen=True):
    """Milliseconds in which the server was ready to run and did not, and which the machine lost to its host."""

    queued: float
    stolen: float

    @classmethod
    def read(cls, pid: int) -> Self:
        queued = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e6
        stolen = int(Path("/proc/stat").read_text().split()[8]) * 1000 / os.sysconf("SC_CLK_TCK")
        return cls(queued, stolen)


class Watch:
    """Notes the slow commands of each thing that is done."""

    def __init__(self, store: Store, pid: int, told: Counter[str]) -> None:
        self._store = store
        self._pid = pid
        self._told = told  # calls of scripts so far
        self.found: list[tuple[str, float, int]] = []

    @asynccontextmanager
    async def over(self, name: str) -> AsyncIterator[None]:
        before, told = Waits.read(self._pid), self._told.copy()
        await self._store.command("SLOWLOG", "RESET")
        yield
        entries = await self._store.command("SLOWLOG", "GET", MOST_ENTRIES)
        after = Waits.read(self._pid)
        kinds: dict[str, list[float]] = {}
        for entry in entries:
            if entry[3][0] not in (b"SLOWLOG", b"CONFIG"):
                kinds.setdefault(described(entry), []).append(entry[2] / 1000)
        slow = [took for times in kinds.values() for took in times]
        longest, over = max(slow, default=0.0), sum(took > BOUND for took in slow)
        self.found.append((name, longest, over))
        took = f"{longest:8.2f}" if slow else f"under {SEEN_MICROSECONDS // 1000}"
        waits = f"waited {after.queued - before.queued:.0f} ms, lost {after.stolen - before.stolen:.0f} ms"
        say(f"{name:50} {took:>8} ms {over:5} over {BOUND:g} ms   {waits}")
        for kind, times in sorted(kinds.items(), key=lambda each: max(each[1]), reverse=True):
            many, calls = sum(took > BOUND for took in times), self._told[kind] - told[kind]
            noted = f"{len(times)} over {SEEN_MICROSECONDS // 1000} ms, of {calls or 'some'} calls"
            say(f"    {kind:46} {max(times):8.2f} ms {many:5} over {BOUND:g} ms, {noted}")


def described(entry: list[Any]) -> str:
    """A command by its name; a script by its operations, which are the name of the connection."""
    words = [word[:40].decode() for word in entry[3][:2]]
    return entry[5].decode() if words[0] in ("EVALSHA", "EVAL") else " ".join(words)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def fill(deployment: Deployment, name: str, count: int, **options: Any) -> None:
    said = Options(**options)
    for start in range(0, count, BATCH):
        await asyncio.sleep(REST_SECONDS)
        numbers = range(start, min(start + BATCH, count))
        await deployment.producer.submit_many(
            [Submission(PLATFORM, "drill", {"steps": 1, "seconds": 0}, id=f"{name}-{n}", options=said) for n in numbers]
        )


async def measure(deployment: Deployment, watch: Watch, waiting: int, delayed: int) -> None:
    store, keys = deployment.store, PlatformKeys(PLATFORM)
    await store.commands(
        [
            ("CONFIG", "SET", "slowlog-log-slower-than", SEEN_MICROSECONDS),
            ("CONFIG", "SET", "slowlog-max-len", MOST_ENTRIES),
        ]
    )
    await store.command("EVAL", FILL, 0, keys.prefix, RUNNING, OWNERS)
    async with watch.over(f"submit {waiting:,} jobs in bulk"):
        await fill(deployment, "w", waiting)
    async with watch.over(f"submit {delayed:,} delayed jobs in bulk"):
        await fill(deployment, "d", delayed, delay_seconds=3600.0)
    async with watch.over("submit 100 jobs one by one"):
        for number in range(100):
            await deployment.producer.submit(Submission(PLATFORM, "drill", {"steps": 1}, id=f"one-{number}"))
    gateway = await deployment.gateway()

    async def get(path: str) -> None:
        reply = await deployment.http.get(gateway.url + path, timeout=60.0)
        assert reply.status_code == 200, f"{path}: {reply.status_code} {reply.text[:200]}"

    for path in READS:
        async with watch.over(f"GET {path}"):
            await get(path)

    async def post(path: str, body: Any = None) -> None:
        reply = await deployment.http.post(gateway.url + path, json=body, timeout=60.0)
        assert reply.status_code < 300, f"{path}: {reply.status_code} {reply.text[:200]}"

    acts: dict[str, Callable[[], Awaitable[None]]] = {
        "cancel a waiting job": lambda: post(f"/api/jobs/{PLATFORM}.w-500/cancel"),
        "cancel a running job": lambda: post(f"/api/jobs/{PLATFORM}.job-500/cancel"),
        "retry a cancelled job": lambda: post(f"/api/jobs/{PLATFORM}.w-500/retry"),
        "pause": lambda: post(f"/api/platforms/{PLATFORM}/pause"),
        "resume": lambda: post(f"/api/platforms/{PLATFORM}/resume"),
        "bulk of 10,000 over HTTP": lambda: post(
            "/api/jobs/bulk",
            {"jobs": [{"platform": PLATFORM, "kind": "drill", "args": {"steps": 1}} for _ in range(10_000)]},
        ),
    }
    for name, act in acts.items():
        async with watch.over(name):
            await act()
    async with watch.over("one consumer for 20 s: takes over, runs, forgets"):
        consumer = await deployment.consumer(PLATFORM, pace=PACE)
        await asyncio.sleep(20)
    for _ in range(delayed // 5000):
        await store.command("EVAL", MAKE_DUE, 0, keys["due"])
    async with watch.over(f"the same while {delayed:,} jobs become due"):
        await asyncio.sleep(20)
    async with watch.over("drain"):
        consumer.interrupt()
        await consumer.ended(60.0)


async def main(server: Path | None, waiting: int, delayed: int) -> None:
    extra = ("--appendonly", "no")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with OwnStore(place / "store", server=server, extra_args=extra) as own:
            if len(processors := sorted(os.sched_getaffinity(0))) > 1:
                os.sched_setaffinity(own.pid, processors[:1])
                os.sched_setaffinity(0, processors[1:])
            with suppress(PermissionError):
                os.sched_setscheduler(own.pid, os.SCHED_FIFO, os.sched_param(50))
            socket = Path(own.url.removeprefix("unix://"))
            told: Counter[str] = Counter()
            async with naming(socket, place / "named.sock", told) as url, Deployment(url, place, CONFIG) as deployment:
                watch = Watch(deployment.store, own.pid, told)
                await measure(deployment, watch, waiting, delayed)
    worst = max(watch.found, key=lambda row: row[1])
    say(f"slowest: {worst[1]:.2f} ms, {worst[0]}; calls over {BOUND:g} ms: {sum(row[2] for row in watch.found)}")


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "warning")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--delayed", type=int, default=100_000)
    options = parser.parse_args()
    uvloop.run(main(options.server, options.waiting, options.delayed))
