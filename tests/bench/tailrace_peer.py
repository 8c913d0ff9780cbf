"""Tailrace as one of the peers of a side-by-side benchmark: `tailrace_peer.py --runner FOLDER drain 10000`.

FOLDER holds the benchmark's `common.py`, which measures; this file only says how Tailrace submits and works.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, sys.argv[sys.argv.index("--runner") + 1])

import common  # type: ignore[import-not-found]

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.consumer import Consumer
from tailrace.consumers.settings import ConsumerSettings
from tailrace.producers import Producer, Submission
from tailrace.streams import Platforms, Policy, Store, Transitions
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown

PLATFORM = "bench"
CONCURRENCY = common.CONC or 128
OVERALL = int(os.environ.get("BENCH_OVERALL", "0"))
WAIT = os.environ.get("BENCH_WAIT", "1") == "1"  # 0: reports are only queued
FAST = {"TAILRACE_BEAT_SECONDS": "0.5", "TAILRACE_DEADLINE_SECONDS": "3", "TAILRACE_REAP_SECONDS": "0.5"}

handles = Handlers()


@handles("noop")
async def noop(attempt: Attempt[dict[str, Any]]) -> None:
    common.METER.hit()


@handles("st")
async def stamp(attempt: Attempt[dict[str, int]]) -> None:
    common.stamp(attempt.args["t"])


@handles("slow")
async def slow(attempt: Attempt[dict[str, float]]) -> None:
    common.mark_start()
    await asyncio.sleep(attempt.args["t"])


@handles("prog")
async def prog(attempt: Attempt[dict[str, Any]]) -> None:
    for step in range(10):
        await attempt.progress(step, wait=WAIT)
    common.METER.hit()


class Tailrace(common.Peer):  # type: ignore[misc]
    name = "tailrace"
    script = [sys.executable, *sys.argv[: sys.argv.index("--runner") + 2]]  # noqa: RUF012

    async def open(self) -> None:
        self.store = Store(common.URL)
        self.platforms = Platforms({PLATFORM: Policy(max_running=OVERALL, max_running_per_process=CONCURRENCY)})
        self.producer = Producer(Transitions(self.store), self.platforms)

    async def close(self) -> None:
        await self.store.aclose()

    async def one(self, kind: str, args: Any) -> None:
        await self.producer.submit(Submission(PLATFORM, kind, args if isinstance(args, dict) else {"t": args}))

    async def bulk(self, kind: str, n: int) -> None:
        for start in range(0, n, 2000):
            count = min(2000, n - start)
            await self.producer.submit_many([Submission(PLATFORM, kind, common.DATA) for _ in range(count)])

    async def work(self) -> None:
        platforms = Platforms({PLATFORM: Policy(max_running=OVERALL, max_running_per_process=CONCURRENCY)})
        settings = ConsumerSettings.read(platforms, environment=Environment(FAST if common.FAST else {}))
        async with Store(common.URL) as store:
            await Consumer(settings, platforms, handles, store).run(Shutdown())


if __name__ == "__main__":
    at = sys.argv.index("--runner")
    uvloop.run(Tailrace().main(sys.argv[:1] + sys.argv[at + 2 :]))
