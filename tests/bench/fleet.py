"""What would a large fleet need? `fleet.py [--consumers 1000] [--waiting 10000000] [--nodes 12] …`: a simulation.

It first measures, on a server of its own, how long that server works on each thing that a fleet asks of it. Then it
spreads platforms over the nodes of a cluster by their real slots, and follows the fleet in steps of ten seconds until
nothing waits: what each platform finishes is bounded by its consumers, what each node does by one core. The last line
is for machines. It does not know the network, the disks, or what happens when a node fails.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Policy
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.store.slots import slot_of
from tests.support.builders import Desk

STEP_SECONDS = 10.0
LONGEST_SECONDS = 86_400.0
BEAT_SECONDS, LOOK_SECONDS = 2.0, 1.0  # of a heart, by default
BATCH, JOBS = 50, 2000
CROWD = 1000  # owners of one platform, for the cost of a look
WAITING_BYTES = 350  # of one job: what `tailrace bench --only memory` finds
FULL = 0.8  # of a core: a node that does more is too slow for those who wait


class Costs(NamedTuple):
    """Microseconds of a server."""

    submit: float  # of one job
    run: float  # to claim a job and to end it
    report: float
    beat: float  # of one consumer on one platform
    look: float  # of one heart at one platform, without the owners that it reads
    owner: float  # for each of these


async def measure() -> Costs:
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder) / "store") as server:
        async with Store(server.url) as store:
            desk = Desk(store)

            async def took(doing: Callable[[], Awaitable[Any]], count: int) -> float:
                await store.command("CONFIG", "RESETSTAT")
                await doing()
                stats = info_fields(await store.command("INFO", "commandstats"))
                busy = sum(
                    float(said.partition("usec=")[2].partition(",")[0])
                    for name, said in stats.items()
                    if name in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_hgetall", "cmdstat_exists")
                )
                return busy / count

            async def submit() -> None:
                for start in range(0, JOBS, BATCH):
                    await desk.submit(*(f"job-{number}" for number in range(start, start + BATCH)))

            async def report() -> None:
                held = await desk.claim("ann", BATCH)
                for number in range(1, JOBS // BATCH + 1):
                    await desk.transitions.commit(desk.keys, [desk.reporting(each, number) for each in held])
                await desk.transitions.commit(desk.keys, [desk.completing(each) for each in held])

            async def run() -> None:
                for _ in range(JOBS // BATCH - 1):
                    held = await desk.claim("ann", BATCH)
                    await desk.transitions.commit(desk.keys, [desk.completing(each) for each in held])

            async def beat() -> None:
                for number in range(CROWD):
                    await desk.beat(f"owner-{number}")

            async def look() -> None:
                for _ in range(100):
                    await desk.transitions.tend([(desk.keys, Policy())])

            await desk.submit("first")
            per_submit = await took(submit, JOBS)
            per_report = await took(report, JOBS)
            per_run = await took(run, JOBS - BATCH)
            alone = await took(look, 100)
            per_beat = await took(beat, CROWD)
            crowded = await took(look, 100)
            owner = max(0.0, crowded - alone) / CROWD
            return Costs(per_submit, per_run, per_report, per_beat, alone, owner)


class Fleet(NamedTuple):
    nodes: int
    platforms: int
    consumers: int
    serves: int  # platforms of one consumer
    slots: int  # jobs at a time in one consumer
    waiting: int
    seconds: float  # of a job, on average
    steps: int  # that a job reports
    arriving: float  # jobs a second, while the rest waits
    seed: int


def simulate(fleet: Fleet, costs: Costs) -> dict[str, Any]:
    dice = random.Random(fleet.seed)
    names = [f"platform-{number}" for number in range(fleet.platforms)]
    node_of = {name: slot_of(PlatformKeys(name).prefix) * fleet.nodes // SLOTS for name in names}
    # Platforms differ: the weight of each is drawn from a long-tailed distribution. Each has a consumer, and the other
    # consumers serve platforms by their weight.
    weights = {name: dice.paretovariate(1.5) for name in names}
    whole = sum(weights.values())
    served = [set(names[start : start + fleet.serves]) for start in range(0, len(names), fleet.serves)]
    for _ in range(fleet.consumers - len(served)):
        chosen: set[str] = set()
        while len(chosen) < fleet.serves:
            chosen.update(dice.choices(names, list(weights.values()))[:1])
        served.append(chosen)
    owners = {name: sum(name in each for each in served) for name in names}
    waiting = {name: fleet.waiting * weights[name] / whole for name in names}
    begun = dict(waiting)
    steady = [0.0] * fleet.nodes  # the share of a core that goes to beats and looks
    for name in names:
        beats = owners[name] * costs.beat / BEAT_SECONDS
        looks = owners[name] * (costs.look + owners[name] * costs.owner) / LOOK_SECONDS
        steady[node_of[name]] += (beats + looks) / 1e6
    per_job = (costs.run + fleet.steps * costs.report) / 1e6
    busiest, now, done = [0.0] * fleet.nodes, 0.0, 0.0
    arriving = {name: fleet.arriving * weights[name] / whole for name in names}
    while any(waiting[name] > 1 + 2 * STEP_SECONDS * arriving[name] for name in names) and now < LONGEST_SECONDS:
        # A consumer gives its slots to those of its platforms where something waits.
        slots = dict.fromkeys(names, 0.0)
        for each in served:
            wanting = [name for name in sorted(each) if waiting[name] >= 1] or sorted(each)
            for name in wanting:
                slots[name] += fleet.slots / len(wanting)
        asked = {name: slots[name] / fleet.seconds if waiting[name] >= 1 else 0.0 for name in names}
        load = list(steady)
        for name in names:
            load[node_of[name]] += asked[name] * per_job + arriving[name] * costs.submit / 1e6
        for name in names:
            slowed = max(1.0, load[node_of[name]])
            ended = min(waiting[name], asked[name] / slowed * STEP_SECONDS)
            waiting[name] += arriving[name] * STEP_SECONDS - ended
            done += ended
        busiest = [max(pair) for pair in zip(busiest, load, strict=True)]
        now += STEP_SECONDS
    table = [
        {
            "node": node,
            "platforms": sum(node_of[name] == node for name in names),
            "waiting": round(sum(begun[name] for name in names if node_of[name] == node)),
            "memory_mb": round(sum(begun[name] for name in names if node_of[name] == node) * WAITING_BYTES / 1e6),
            "beats_and_looks": round(steady[node], 3),
            "busiest": round(busiest[node], 3),
        }
        for node in range(fleet.nodes)
    ]
    connections = fleet.consumers * 2 * fleet.nodes + fleet.consumers * fleet.serves
    return {
        "fleet": fleet._asdict(),
        "costs": {name: round(value, 3) for name, value in costs._asdict().items()},
        "hours": round(now / 3600, 2),
        "jobs_per_second": round(done / now, 1),
        "connections_per_node": round(connections / fleet.nodes),
        "most_memory_mb": max(row["memory_mb"] for row in table),
        "busiest": max(row["busiest"] for row in table),
        "nodes": table,
    }


def tell(found: dict[str, Any]) -> str:
    lines = ["node  platforms    waiting      MB   beats and looks   busiest, of a core"]
    for row in found["nodes"]:
        too_much = "  too much" if row["busiest"] > FULL else ""
        lines.append(
            f"{row['node']:>4}  {row['platforms']:>9}  {row['waiting']:>9,}  {row['memory_mb']:>6,}"
            f"  {row['beats_and_looks']:>16.1%}  {row['busiest']:>19.1%}{too_much}"
        )
    lines.append(f"nothing waits after {found['hours']:,} h, at {found['jobs_per_second']:,} jobs/s")
    lines.append(f"each node has about {found['connections_per_node']:,} connections")
    return "\n".join([*lines, json.dumps(found), ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for word, default in (("nodes", 12), ("platforms", 240), ("consumers", 1000), ("serves", 4), ("slots", 10)):
        parser.add_argument(f"--{word}", type=int, default=default)
    parser.add_argument("--waiting", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a job, on average")
    parser.add_argument("--steps", type=int, default=5, help="that a job reports")
    parser.add_argument("--arriving", type=float, default=100.0, help="jobs a second")
    parser.add_argument("--seed", type=int, default=1)
    sys.stdout.write(tell(simulate(Fleet(**vars(parser.parse_args())), uvloop.run(measure()))))
