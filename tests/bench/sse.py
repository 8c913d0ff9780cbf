"""How fast one gateway process tells many live clients: `python tests/bench/sse.py`, beside one read per client.

calm: 50 jobs with 100 clients each, 2 events a second and job.  hot: one job, 1,000 clients, as fast as it goes.
Gateway, listeners and store share this machine; figures are for comparing, and nothing asserts them.
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

import msgspec
import psutil
import uvloop

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from ops.store import OwnStore, free_port  # noqa: E402
from streams.connection import Store  # noqa: E402
from streams.events import event_body, expand  # noqa: E402
from streams.messages import Claim  # noqa: E402
from tests.gateway.gateways import GatewayProcess, wait_for_answer  # noqa: E402
from tests.support.builders import Desk  # noqa: E402

BATCH = 25  # events of the hot job in one call
TEXT = "x" * 60

Tell = Callable[[int, int], Awaitable[None]]  # tell the clients of job n of some events more


class Heard(msgspec.Struct):
    deliveries: int
    seconds: float
    p50_ms: float
    p99_ms: float
    most_ms: float
    cpu: float = 0.0  # of the gateway, in seconds


@asynccontextmanager
async def audience(port: int, paths: list[str], clients: int, gateway: int) -> AsyncIterator[list[Heard]]:
    """Everybody listens while this is open; afterwards the list holds what they heard."""
    command = [sys.executable, str(HERE / "listeners.py"), str(port), ",".join(paths), str(clients)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"ready\n"
        heard: list[Heard] = []
        before = sum(psutil.Process(gateway).cpu_times()[:2])
        yield heard
        process.stdin.write(b"stop\n")
        heard.append(msgspec.json.decode(await process.stdout.readline(), type=Heard))
        heard[0].cpu = sum(psutil.Process(gateway).cpu_times()[:2]) - before
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def calm(tell: Tell, jobs: int, seconds: float) -> None:
    """Each job twice a second, evenly spread."""
    begin, number = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        await asyncio.sleep(max(0.0, number / (2 * jobs) - now))
        await tell(number % jobs, 1)
        number += 1


async def hot(tell: Tell, events: int) -> None:
    for _ in range(0, events, BATCH):
        await tell(0, BATCH)


async def ours(store: Store, jobs: int) -> tuple[list[str], Tell]:
    desk = Desk(store, "research")
    await store.command("FLUSHALL")
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
    await store.command("FLUSHALL")
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
    with GatewayProcess(url, {"LOG_LEVEL": "error"}) as gateway:
        yield gateway.port, gateway.process.pid


async def measure(options: argparse.Namespace) -> None:
    raise_file_limit()
    kinds = {"shared feed": (our_gateway, ours), "one read per client": (naive_gateway, theirs)}
    if options.ours:
        kinds.pop("one read per client")
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder)) as own:
        for name, (gateway, prepare) in kinds.items():
            for story in options.stories.split(","):
                jobs, clients = (50, options.clients) if story == "calm" else (1, 1000)
                async with Store(own.url) as store:
                    with gateway(own.url) as (port, pid):
                        paths, tell = await prepare(store, jobs)
                        async with audience(port, paths, clients, pid) as heard:
                            work = calm(tell, jobs, options.seconds) if story == "calm" else hot(tell, options.events)
                            await work
                show(name, story, clients, heard[0])


def show(name: str, story: str, clients: int, heard: Heard) -> None:
    rate = heard.deliveries / heard.seconds
    sys.stdout.write(
        f"{name:20} {story:5} {clients:5} clients {heard.deliveries:9,} deliveries {rate:9,.0f}/s"
        f"  delay p50 {heard.p50_ms:.1f} p99 {heard.p99_ms:.1f} most {heard.most_ms:.1f} ms"
        f"  gateway {heard.cpu * 1e6 / max(1, heard.deliveries):.1f} µs each\n"
    )
    sys.stdout.flush()


def raise_file_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=5000, help="of the calm jobs together")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long calm jobs are told of")
    parser.add_argument("--events", type=int, default=2000, help="of the hot job")
    parser.add_argument("--stories", default="calm,hot")
    parser.add_argument("--ours", action="store_true", help="leave out the gateway with one read per client")
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
