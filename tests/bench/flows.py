"""What children cost: how many a second, how soon their parent has their results, and what each holds up of the store.

`flows.py [--server PATH] [--rounds N] [--beside COMMAND] [children …]`: for each number of children a tree is submitted
and run by a consumer in this process, its parent on one platform and its children on another (`tree`); the same with
children that the parent spawns and joins itself (`spawned`). `after` is the time from the end of the last child until
the handler of the parent has all results. SLOWLOG tells the slowest call; it also counts the time in which the
server had to wait for a processor, so that the server has one to itself where there are two.

COMMAND is another program that does the same work on the same server, in turn with ours: it is called as
`COMMAND PORT CHILDREN` and prints one JSON line with `peer`, `seconds` and `after_ms`.
"""

import argparse
import asyncio
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.consumer import Consumer
from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Flow, Tailrace
from tailrace.producers.flows import MOST_JOBS
from tailrace.streams import Platforms, Policy, Store
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown
from tests.bench.bounds import described, say
from tests.support.ports import free_port

POLICY = Policy(max_running_per_process=128, max_starts=1000)
PLATFORMS = Platforms({"parents": POLICY, "children": POLICY})
SLOW_MICROSECONDS = 2500  # what takes less is not noted
MOST_ENTRIES = 1000

handles = Handlers()
last_child = 0.0  # when it ended
parent_ended: asyncio.Future[float]  # how long after that its parent had all results


@handles("child")
async def child(attempt: Attempt[dict[str, int]]) -> int:
    global last_child
    last_child = time.perf_counter()
    return attempt.args["n"]


def has_all(results: list[int], children: int) -> None:
    assert results == list(range(children))
    parent_ended.set_result(time.perf_counter() - last_child)


@handles("tree")
async def tree(attempt: Attempt[dict[str, int]]) -> None:
    has_all(await attempt.join(await attempt.children(result=int)), attempt.args["children"])


@handles("spawned")
async def spawned(attempt: Attempt[dict[str, int]]) -> None:
    args = [{"n": number} for number in range(attempt.args["children"])]
    many = await attempt.spawn_many("child", args, platform="children", result=int)
    has_all(await attempt.join(many), attempt.args["children"])


class Cost(NamedTuple):
    """Of one parent with its children."""

    seconds: float
    after_ms: float
    memory: float = 0.0  # bytes a child
    slowest_ms: float = 0.0
    slow: int = 0  # calls over 5 ms
    calls: int = 0


class Slow:
    """The commands that took long, by what they ran."""

    def __init__(self) -> None:
        self.longest: Counter[str] = Counter()
        self.count: Counter[str] = Counter()

    def note(self, entries: list[Any]) -> tuple[float, int]:
        mine = [entry for entry in entries if entry[3][0] not in (b"SLOWLOG", b"CONFIG", b"FLUSHALL")]
        for entry in mine:
            name = described(entry)
            self.longest[name] = max(self.longest[name], entry[2])
            self.count[name] += 1
        return max((entry[2] for entry in mine), default=0) / 1000, sum(entry[2] > 5000 for entry in mine)


async def ours(tr: Tailrace, store: Store, kind: str, children: int, slow: Slow) -> Cost:
    global parent_ended
    parent_ended = asyncio.get_running_loop().create_future()
    await store.commands([("SLOWLOG", "RESET"), ("CONFIG", "RESETSTAT")])
    memory, begun = await used_memory(store), time.perf_counter()
    if kind == "tree":
        children = min(children, MOST_JOBS - 1)  # its root counts too
    below = [Flow("children", "child", {"n": number}) for number in range(children)] if kind == "tree" else []
    job = (await tr.submit_flow(Flow("parents", kind, {"children": children}, below))).id
    after = await parent_ended
    seconds = time.perf_counter() - begun
    await tr.result(job, timeout=60)
    longest, over = slow.note(await store.command("SLOWLOG", "GET", MOST_ENTRIES))
    grown = (await used_memory(store) - memory) / children
    return Cost(seconds, after * 1000, grown, longest, over, await scripts_run(store))


async def theirs(command: str, port: int, children: int) -> tuple[str, Cost]:
    words = [*shlex.split(command), str(port), str(children)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    told = json.loads(said)
    return told["peer"], Cost(told["seconds"], told["after_ms"])


async def used_memory(store: Store) -> int:
    return int((await store.command("INFO", "memory")).decode().partition("used_memory:")[2].partition("\r")[0])


async def scripts_run(store: Store) -> int:
    facts = (await store.command("INFO", "commandstats")).decode()
    return int(facts.partition("cmdstat_evalsha:calls=")[2].partition(",")[0])


@asynccontextmanager
async def working(url: str) -> AsyncIterator[tuple[Tailrace, Store]]:
    """A client, and a consumer at work on an empty store."""
    async with Store(url) as store, Store(url) as own:
        await store.commands(
            [
                ("FLUSHALL",),
                ("CONFIG", "SET", "slowlog-log-slower-than", SLOW_MICROSECONDS),
                ("CONFIG", "SET", "slowlog-max-len", MOST_ENTRIES),
            ]
        )
        shutdown, settings = Shutdown(), ConsumerSettings.read(PLATFORMS, environment=Environment({}))
        consumer = asyncio.create_task(Consumer(settings, PLATFORMS, handles, own).run(shutdown))
        yield Tailrace.over(store, PLATFORMS), store
        shutdown.request()
        await consumer


def row(who: str, children: int, costs: list[Cost]) -> str:
    """Medians; of what must not happen, the most."""
    middle = {
        name: statistics.median(getattr(cost, name) for cost in costs) for name in ("seconds", "after_ms", "memory")
    }
    text = (
        f"{who:14} {children:6,} children {children / middle['seconds']:9,.0f}/s   after {middle['after_ms']:8.2f} ms"
    )
    if calls := sum(cost.calls for cost in costs):
        slow = sum(cost.slow for cost in costs)
        longest = max(cost.slowest_ms for cost in costs)
        text += (
            f"   {middle['memory']:6,.0f} bytes each   slowest call {longest:5.2f} ms, {slow} of {calls:,} over 5 ms"
        )
    return text


async def main(server: Path | None, rounds: int, beside: str | None, numbers: list[int]) -> None:
    port, slow = free_port(), Slow()
    extra = ("--appendonly", "no", "--port", str(port), "--bind", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder), server=server, extra_args=extra) as own:
        if len(processors := sorted(os.sched_getaffinity(0))) > 1:
            os.sched_setaffinity(own.pid, processors[:1])
            os.sched_setaffinity(0, processors[1:])
        with suppress(PermissionError):
            os.sched_setscheduler(own.pid, os.SCHED_FIFO, os.sched_param(50))
        url = f"redis://127.0.0.1:{port}"
        for children in numbers:
            costs: dict[str, list[Cost]] = {}
            for _ in range(rounds):
                async with working(url) as (tr, store):
                    for kind in ("tree", "spawned"):
                        await ours(tr, store, kind, 5, Slow())  # the scripts are known then, and connections open
                        costs.setdefault(f"ours, {kind}", []).append(await ours(tr, store, kind, children, slow))
                if beside:
                    async with Store(url) as store:
                        await store.command("FLUSHALL")
                    peer, cost = await theirs(beside, port, children)
                    costs.setdefault(peer, []).append(cost)
            for who, measured in costs.items():
                say(row(who, children, measured))
        for name, micros in slow.longest.most_common():
            say(
                f"over {SLOW_MICROSECONDS / 1000:g} ms: {slow.count[name]:5}   longest {micros / 1000:6.2f} ms   {name}"
            )


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "warning")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", help="another program that does the same work")
    parser.add_argument("children", nargs="*", type=int, default=[1, 100, 1000, 10_000])
    options = parser.parse_args()
    uvloop.run(main(options.server, options.rounds, options.beside, options.children))
