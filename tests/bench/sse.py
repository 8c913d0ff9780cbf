"""How many live clients one gateway process bears: `python tests/bench/sse.py`, beside one read per client.

viewers: 5,000 clients of 50 jobs, and 200 events a second to all of them together.
clients: the same events to more and more clients, until one in a hundred comes later than a second.
events: more and more events to 1,000 clients of 50 jobs, until the same.
hot: one job with 1,000 clients, told as fast as it goes (not unless asked for).
Gateway, clients and store share this machine; figures are for comparing, and nothing asserts them.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tailrace.ops.up.own_store import OwnStore, free_port  # noqa: E402
from tailrace.streams.history.events import event_body, expand  # noqa: E402
from tailrace.streams.messages import Claim  # noqa: E402
from tailrace.streams.store.connection import Store  # noqa: E402
from tests.bench.sse_table import EVENTS_PER_SECOND, JOBS, STEADY_CLIENTS, Result, Round, lines  # noqa: E402
from tests.gateway.gateways import GatewayProcess, wait_for_answer  # noqa: E402
from tests.support.builders import Desk  # noqa: E402

CONNECT_SECONDS = 60  # for any number of clients
SETTLE_SECONDS = 3  # for what is under way when no more is told
STEP_SECONDS = 2.5  # of each round of `clients` and `events`
CLIENTS = (500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 11_000, 14_500)  # as many as one process may have files
EVENTS = (200, 400, 600, 800, 1200, 1600, 2400, 3200, 4800, 6400, 9600, 12_800)  # a second
HOT_BATCH = 25
OURS, THEIRS = "shared feed", "one read per client"

Tell = Callable[[int, int], Awaitable[None]]  # tell the clients of job n of some events more


class Audience:
    """The clients of one gateway, and what they say."""

    def __init__(self, process: asyncio.subprocess.Process, gateway: int) -> None:
        self._process = process
        self._gateway = psutil.Process(gateway)
        self._memory = self._gateway.memory_info().rss
        self._cpu = 0.0
        self.clients = 0
        self.connect_seconds = 0.0

    async def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n".encode())
        answer: dict[str, Any] = msgspec.json.decode(await self._process.stdout.readline())
        return answer

    async def grow(self, clients: int) -> None:
        answer = await self._ask(f"more {clients - self.clients} {CONNECT_SECONDS}")
        self.clients = answer["connected"]
        self.connect_seconds += answer["seconds"]

    @property
    def memory_per_client(self) -> float:
        return (self._gateway.memory_info().rss - self._memory) / 1024 / max(1, self.clients)

    async def hear(self, events: Awaitable[int], jobs: int) -> Round:
        """What reaches the clients of some events that are told now."""
        await self._ask("count")
        before = sum(self._gateway.cpu_times()[:2])
        expected = await events * self.clients // jobs
        answer = await self._ask(f"stop {expected} {SETTLE_SECONDS}")
        cpu = sum(self._gateway.cpu_times()[:2]) - before
        deliveries, seconds = answer["deliveries"], answer["seconds"]
        cpu_us = cpu * 1e6 / max(1, deliveries)
        return Round(self.clients, deliveries, expected, seconds, answer["p50_ms"], answer["p99_ms"], cpu_us)


@asynccontextmanager
async def audience(port: int, paths: list[str], gateway: int) -> AsyncIterator[Audience]:
    command = [sys.executable, str(HERE / "listeners.py"), str(port), ",".join(paths)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Audience(process, gateway)
    finally:
        process.kill()
        await process.wait()


# What is told


async def steadily(tell: Tell, seconds: float, rate: int = EVENTS_PER_SECOND) -> int:
    """So many events a second, to the jobs in turn, 200 times a second; how many it were."""
    begin, number = time.monotonic(), 0
    while number < seconds * EVENTS_PER_SECOND:
        await asyncio.sleep(max(0.0, begin + number / EVENTS_PER_SECOND - time.monotonic()))
        await tell(number % JOBS, rate // EVENTS_PER_SECOND)
        number += 1
    return number * (rate // EVENTS_PER_SECOND)


async def fast(tell: Tell, events: int) -> int:
    for _ in range(0, events, HOT_BATCH):
        await tell(0, HOT_BATCH)
    return events


async def ours(store: Store, jobs: int) -> tuple[list[str], Tell]:
    desk = Desk(store, "research")
    keys = [f"k{number}" for number in range(jobs)]
    await desk.submit(*keys)
    held: list[Claim] = []
    while len(held) < jobs:
        held += await desk.claim(slots=jobs - len(held))
    held.sort(key=lambda each: int(each.key[1:]))
    told = [0] * jobs

    async def tell(job: int, count: int) -> None:
        steps = range(told[job] + 1, told[job] + count + 1)
        told[job] += count
        await desk.transitions.commit(desk.keys, [desk.reporting(held[job], step) for step in steps])

    return [f"/research/stream/research.{key}" for key in keys], tell


async def theirs(store: Store, jobs: int) -> tuple[list[str], Tell]:
    told = 0

    async def tell(job: int, count: int) -> None:
        nonlocal told
        commands = []
        for _ in range(count):
            told += 1
            written = f"{told}-{time.time_ns() // 1000}0"
            event = expand(f"research.k{job}", f"{written} ".encode() + event_body(1, "progress", "ann", told))
            commands.append(("XADD", f"s{job}", "*", "id", written, "event", event))
        await store.commands(commands)

    for job in range(jobs):
        await tell(job, 1)
    return [f"/s{job}" for job in range(jobs)], tell


# The gateways


@contextmanager
def naive_gateway(url: str) -> Iterator[tuple[int, int]]:
    port = free_port(0)
    process = subprocess.Popen([sys.executable, str(HERE / "naive_gateway.py"), url, str(port)], text=True)
    try:
        wait_for_answer(f"http://127.0.0.1:{port}", process)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def our_gateway(url: str) -> Iterator[tuple[int, int]]:
    with GatewayProcess(url, {"LOG_LEVEL": "error", "TAILRACE_MAX_CONNECTIONS": str(2 * CLIENTS[-1])}) as gateway:
        yield gateway.port, gateway.process.pid


GATEWAYS: dict[str, tuple[Any, Any]] = {OURS: (our_gateway, ours), THEIRS: (naive_gateway, theirs)}


# The stories


async def viewers(crowd: Audience, tell: Tell, options: argparse.Namespace) -> list[Round]:
    await crowd.grow(options.clients)
    return [await crowd.hear(steadily(tell, options.seconds), JOBS)]


async def clients(crowd: Audience, tell: Tell, _: argparse.Namespace) -> list[Round]:
    rounds: list[Round] = []
    for number in CLIENTS:
        await crowd.grow(number)
        rounds.append(await step(crowd, tell, EVENTS_PER_SECOND))
        if not rounds[-1].in_time:
            break
    return rounds


async def events(crowd: Audience, tell: Tell, _: argparse.Namespace) -> list[Round]:
    await crowd.grow(STEADY_CLIENTS)
    rounds: list[Round] = []
    for rate in EVENTS:
        rounds.append(await step(crowd, tell, rate))
        if not rounds[-1].in_time:
            break
    return rounds


async def step(crowd: Audience, tell: Tell, rate: int) -> Round:
    """One step up. When it is late it is tried once more: this machine may have had something else to do."""
    for _ in range(2):
        heard = await crowd.hear(steadily(tell, STEP_SECONDS, rate), JOBS)
        heard.events_per_second = rate
        if heard.in_time:
            break
    return heard


async def hot(crowd: Audience, tell: Tell, options: argparse.Namespace) -> list[Round]:
    await crowd.grow(STEADY_CLIENTS)
    return [await crowd.hear(fast(tell, options.events), 1)]


STORIES = {"viewers": viewers, "clients": clients, "events": events, "hot": hot}


async def measure(options: argparse.Namespace) -> list[Result]:
    raise_file_limit()
    results = []
    extra = ("--maxclients", str(CLIENTS[-1] + 100))
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder), extra_args=extra) as own:
        for story in options.stories.split(","):
            for name in [OURS] if options.ours else GATEWAYS:
                gateway, prepare = GATEWAYS[name]
                async with Store(own.url) as store:
                    await store.command("FLUSHALL")
                    with gateway(own.url) as (port, pid):
                        paths, tell = await prepare(store, 1 if story == "hot" else JOBS)
                        async with audience(port, paths, pid) as crowd:
                            sys.stderr.write(f"{story}: {name} …\n")
                            rounds = await STORIES[story](crowd, tell, options)
                            links = len((await store.command("CLIENT", "LIST")).splitlines()) - 1
                            results.append(
                                Result(story, name, crowd.connect_seconds, crowd.memory_per_client, links, rounds)
                            )
    return results


def raise_file_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=5000, help="of `viewers`")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long `viewers` are told of events")
    parser.add_argument("--events", type=int, default=2000, help="of the hot job")
    parser.add_argument("--stories", default="viewers,clients,events", help=f"of {', '.join(STORIES)}")
    parser.add_argument("--ours", action="store_true", help="leave out the gateway with one read per client")
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args()
    if unknown := set(options.stories.split(",")) - STORIES.keys():
        parser.error(f"no such story: {', '.join(sorted(unknown))}")
    results = uvloop.run(measure(options))
    if options.json:
        sys.stdout.write(msgspec.json.encode(results).decode() + "\n")
    else:
        sys.stdout.write("\n".join(lines(results, options.clients, options.seconds, options.events)) + "\n")


if __name__ == "__main__":
    main()
