"""Does it stay as fast when much waits, and quiet when nothing does? `growth.py [--server PATH] [WAITING …]`

For each number of waiting jobs it submits some more and drains some, and prints one JSON line; then it lets one
consumer serve a hundred platforms without any work for a while, and counts what that costs.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.consumer import Consumer
from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Producer, Submission
from tailrace.streams import Platforms, Policy, Store, Transitions
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown

DRAINED = 20_000
SUBMITTED = 2_000
QUIET_SECONDS = 20.0
ARGS = {"url": "https://shop.example/p/123456", "platform": "oliveyoung", "n": 1}


async def fill(producer: Producer, platform: str, count: int) -> None:
    for start in range(0, count, 5000):
        await producer.submit_many([Submission(platform, "noop", ARGS) for _ in range(min(5000, count - start))])


async def measure(url: str, waiting: int) -> dict[str, Any]:
    platforms = Platforms({"bench": Policy(max_running_per_process=128)})
    handles = Handlers()
    done, begins, all_done = 0, asyncio.Event(), asyncio.Event()

    @handles("noop")
    async def noop(attempt: Attempt[dict[str, Any]]) -> None:
        nonlocal done
        done += 1
        begins.set()
        if done == DRAINED:
            all_done.set()

    async with Store(url) as store:
        await store.command("FLUSHALL")
        producer = Producer(Transitions(store), platforms)
        await fill(producer, "bench", waiting + DRAINED)
        begun = time.monotonic()
        for _ in range(SUBMITTED):
            await producer.submit(Submission("bench", "noop", ARGS))
        submit_rate = SUBMITTED / (time.monotonic() - begun)
        shutdown = Shutdown()
        settings = ConsumerSettings.read(platforms, environment=Environment({}))
        worker = asyncio.create_task(Consumer(settings, platforms, handles, store).run(shutdown))
        await begins.wait()
        begun, first = time.monotonic(), done
        await all_done.wait()
        drain_rate = (DRAINED - first) / (time.monotonic() - begun)
        shutdown.request()
        shutdown.request()
        await worker
    return {"waiting": waiting, "submit_per_s": round(submit_rate), "drain_per_s": round(drain_rate)}


async def idle(url: str) -> dict[str, Any]:
    platforms = Platforms({f"platform-{number}": Policy() for number in range(100)})
    async with Store(url) as store:
        await store.command("FLUSHALL")
        shutdown = Shutdown()
        settings = ConsumerSettings.read(platforms, environment=Environment({}))
        worker = asyncio.create_task(Consumer(settings, platforms, Handlers(), store).run(shutdown))
        await asyncio.sleep(5)
        processes = [psutil.Process(), *psutil.Process().children()]
        await store.command("CONFIG", "RESETSTAT")
        begun = sum(sum(process.cpu_times()[:2]) for process in processes)
        await asyncio.sleep(QUIET_SECONDS)
        used = sum(sum(process.cpu_times()[:2]) for process in processes) - begun
        stats = (await store.command("INFO", "commandstats")).decode()
        calls = sum(
            int(line.partition("calls=")[2].partition(",")[0])
            for line in stats.splitlines()
            if line.startswith(("cmdstat_evalsha:", "cmdstat_xread:"))
        )
        shutdown.request()
        await worker
    return {
        "platforms": 100,
        "cpu_percent": round(100 * used / QUIET_SECONDS, 2),
        "calls_per_s": round(calls / QUIET_SECONDS, 2),
    }


async def main(server: Path | None, numbers: list[int]) -> None:
    extra = ("--appendonly", "no")
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder), server=server, extra_args=extra) as store:
        for waiting in numbers:
            sys.stdout.write(json.dumps(await measure(store.url, waiting)) + "\n")
        sys.stdout.write(json.dumps(await idle(store.url)) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "warning")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("waiting", nargs="*", type=int, default=[1000, 1_000_000, 1000, 1_000_000])
    options = parser.parse_args()
    uvloop.run(main(options.server, options.waiting))
