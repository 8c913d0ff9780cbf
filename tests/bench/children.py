"""What each child of a job costs, from 10 children to 10,000: bytes of the store, instructions of the server, memory of
the consumer.

`children.py [children …]` runs one parent for each number on an empty store whose instructions callgrind counts. The
parent spawns its children on another platform and joins them; a consumer in this process runs all of it. The bytes are
those of all keys but the live feed, which is bounded. A line through the figures tells what a parent costs, and what
each of its children adds.
"""

import argparse
import gc
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.ops.bench.costs import CountedServer, counted_server
from tailrace.streams import Store
from tests.bench.bounds import say
from tests.bench.flows import Slow, ours, working

FEED = b":events"


class Figures(NamedTuple):
    """Of one parent with its children."""

    children: int
    stored: int  # bytes
    instructions: int
    resident: int  # bytes of the process of the consumer, afterwards


async def bytes_stored(store: Store) -> int:
    keys = [key for key in await store.command("KEYS", "*") if not key.endswith(FEED)]
    sizes = await store.commands([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys])
    return sum(size for size in sizes if size)


async def measure(counted: CountedServer, children: int) -> Figures:
    async with working(counted.store.url) as (tr, store):
        await ours(tr, store, "spawned", 5, Slow())  # the scripts are known then
        before = await bytes_stored(store)
        await counted.instructions()
        await ours(tr, store, "spawned", children, Slow())
        instructions = await counted.instructions()
        gc.collect()
        stored = await bytes_stored(store) - before
        return Figures(children, stored, instructions, psutil.Process().memory_info().rss)


def line(figures: Sequence[Figures], of: str) -> str:
    """The line through the figures, each of which counts alike whatever its size: what a parent costs, and a child."""
    slope, constant = statistics.linear_regression(
        [1 / each.children for each in figures], [getattr(each, of) / each.children for each in figures]
    )
    return f"{of:14} {slope:14,.0f} for the parent + {constant:10,.0f} for each child"


async def main(numbers: Sequence[int]) -> None:
    figures = []
    with counted_server() as counted:
        for children in numbers:
            each = await measure(counted, children)
            figures.append(each)
            say(
                f"{children:6,} children   {each.stored / children:8,.0f} bytes each   "
                f"{each.instructions / children / 1000:8,.0f} k instructions each   "
                f"consumer {each.resident / 2**20:6.1f} MB"
            )
    for of in ("stored", "instructions"):
        say(line(figures, of))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("children", nargs="*", type=int, default=[10, 100, 1000, 10_000])
    uvloop.run(main(parser.parse_args().children))
