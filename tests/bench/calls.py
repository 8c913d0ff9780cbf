"""What the calls of `tests/functions/worst_calls.py` cost: milliseconds or millions of instructions.

`calls.py [--server PATH] [--rounds N] [--count]`: runs each of them in rounds, each on an empty store, and prints the
fastest round: the others were disturbed. `--count` counts instructions with callgrind instead, which repeat on any
machine; a core at 2.5 GHz does three to four millions of them in a millisecond.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.ops.bench.costs import ANSWER_SECONDS, CountedServer, counted_server
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store
from tests.functions.worst_calls import WORST, Worst
from tests.support.builders import Desk

SCRIPTS = (b"EVALSHA", b"EVAL")
SEEN_MICROSECONDS = 200  # to note each command of a script would lengthen it


async def milliseconds(store: Store, worst: Worst) -> float:
    """The longest call of a script; 0: too short to be noted."""
    await store.command("FLUSHALL")
    call = await worst(Desk(store))
    await store.command("SLOWLOG", "RESET")
    await call
    entries = await store.command("SLOWLOG", "GET", 10_000)
    return max([entry[2] for entry in entries if entry[3][0] in SCRIPTS], default=0) / 1000


async def instructions(store: Store, counted: CountedServer, worst: Worst) -> float:
    """Millions of them in one call, after another like it: the server knows the script."""
    for _ in range(2):
        await store.command("FLUSHALL")
        call = await worst(Desk(store))
        await counted.instructions()
        await call
        found = await counted.instructions()
    return found / 1e6


@asynccontextmanager
async def timed_store(server: Path | None) -> AsyncIterator[Store]:
    extra = ("--appendonly", "no", "--slowlog-log-slower-than", str(SEEN_MICROSECONDS))
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder), server=server, extra_args=extra) as own:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, own.pid, -20)
        async with Store(own.url) as store:
            yield store


async def time_all(server: Path | None, rounds: int) -> None:
    async with timed_store(server) as store:
        for worst in WORST:
            found = [await milliseconds(store, worst) for _ in range(rounds)]
            sys.stdout.write(f"{worst.__name__:45} {min(found):6.2f} ms, at most {max(found):.2f}\n")
            sys.stdout.flush()


async def count_all(counted: CountedServer) -> None:
    async with Store(counted.store.url, answer_seconds=ANSWER_SECONDS) as store:
        for worst in WORST:
            found = await instructions(store, counted, worst)
            sys.stdout.write(f"{worst.__name__:45} {found:6.1f} million instructions\n")
            sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    if options.count:
        with counted_server() as counted:
            anyio.run(count_all, counted)
    else:
        anyio.run(time_all, options.server, options.rounds)
