"""`bench --costs`: the cost of each transition in instructions of the server, beside the noted costs.

Times on a busy machine differ by half; instructions hardly do. The server runs under valgrind's callgrind, which counts
them: those of the command itself, of its script and of reading and answering, but nothing of the kernel.
"""

import argparse
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from tailrace.ops.tables import Rows
from tailrace.ops.terminal import say
from tailrace.ops.up.own_store import OwnStore, find_server
from tailrace.streams.errors import TailraceError
from tailrace.streams.history.events import event_body
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Job
from tailrace.streams.operations import Operation, call, checked
from tailrace.streams.options import NO_OPTIONS, Options
from tailrace.streams.policies import Policy, rules_of
from tailrace.streams.replies import to_claims
from tailrace.streams.states import Status
from tailrace.streams.store.connection import Store
from tailrace.streams.store.server import read_server
from tailrace.streams.transitions import Transitions, accepting

NOTED = Path(__file__).with_name("costs.json")
TOLERANCE = 0.05  # dearer than noted by more than this: the command ends with 1
ALONE, BATCHES, BATCH = 50, 6, 40
"""Calls with one operation, and calls with many: the server collects the garbage of Lua once in 50 calls."""
ANSWER_SECONDS = 120.0  # a server that is counted is fifty times as slow
OWNER = "bench.host.4242.0123456789abcdef"
ARGS = b'{"url":"https://shop.example/p/123456","page":1,"shop":"oliveyoung"}'
PLENTY: dict[str, Any] = {"max_starts": 100, "order": "block"}


class Cost(Struct, frozen=True):
    """Thousands of instructions: of a call with one operation, and of an operation among many."""

    alone: int
    each: int


Costs = dict[str, Cost]


class Stage:
    """A platform on which operations are made ready."""

    def __init__(self, store: Store) -> None:
        self.transitions = Transitions(store)
        self.keys: PlatformKeys = store.keys("costs")
        self.policy = Policy()
        self._numbers = count(1)

    def submitting(self, options: Options = NO_OPTIONS) -> Operation:
        job = Job(self.keys.platform, f"0192f5c0-7b1a-7c3e-9d2f-{next(self._numbers):012x}", "noop", ARGS, options)
        return call.submit(self.keys, **accepting(job, "f" * 22))

    def claiming(self, slots: int) -> Operation:
        nonces = " ".join(f"0123456789abcd-{next(self._numbers):x}" for _ in range(slots))
        rules = rules_of("claim", self.policy)
        return call.claim(owner=OWNER, deadline_ms=10_000, company="some", nonces=nonces, **rules)

    async def run(self, operations: Sequence[Operation]) -> list[Any]:
        return [checked(answer) for answer in await self.transitions.run([(self.keys, operations)])]

    async def held(self, jobs: int) -> list[dict[str, str]]:
        """The key and the fence of each of some running jobs."""
        running: list[dict[str, str]] = []
        while len(running) < jobs:
            some = min(BATCH, jobs - len(running))
            await self.run([self.submitting() for _ in range(some)])
            (answer,) = await self.run([self.claiming(some)])
            running += [{"key": claim.key, "nonce": claim.nonce} for claim in to_claims(answer)]
        return running


Scene = Callable[[Stage, int], Awaitable[list[Operation]]]


def of_running(operation: Callable[[PlatformKeys, dict[str, str]], Operation]) -> Scene:
    """One operation for each of some running jobs."""

    async def scene(stage: Stage, count: int) -> list[Operation]:
        return [operation(stage.keys, held) for held in await stage.held(count)]

    return scene


async def submit(stage: Stage, count: int) -> list[Operation]:
    return [stage.submitting() for _ in range(count)]


async def submit_with_options(stage: Stage, count: int) -> list[Operation]:
    return [stage.submitting(Options(delay_seconds=3600.0, limit_key=f"shop-{number}")) for number in range(count)]


async def look(stage: Stage, count: int) -> list[Operation]:
    return [stage.claiming(8) for _ in range(count)]


async def claim(stage: Stage, count: int) -> list[Operation]:
    await stage.run([stage.submitting() for _ in range(count)])
    return [stage.claiming(1) for _ in range(count)]


async def cancel(stage: Stage, count: int) -> list[Operation]:
    jobs = [stage.submitting() for _ in range(count)]
    await stage.run(jobs)
    return [call.cancel(stage.keys, key=job.named["key"], more=b"") for job in jobs]


async def beat(stage: Stage, count: int) -> list[Operation]:
    held = " ".join(each["nonce"] for each in await stage.held(BATCH))
    return [call.beat(owner=OWNER, held=held, about=b"") for _ in range(count)]


async def wake(stage: Stage, count: int) -> list[Operation]:
    return [call.wake(**rules_of("wake", stage.policy)) for _ in range(count)]


COMPLETED = event_body(1, Status.COMPLETED, OWNER)
PROGRESS = event_body(1, Status.PROGRESS, OWNER, 3, of=10)
ERROR = b',"error":{"type":"ValueError","message":"no such page"}'

SCENES: dict[str, Scene] = {
    "submit": submit,
    "submit, delayed and with a limit key": submit_with_options,
    "claim, 8 slots and no job": look,
    "claim, one job": claim,
    "report": of_running(lambda keys, held: call.report(keys, number=1, most=10_000, events=PROGRESS, **held)),
    "report, ten in one": of_running(
        lambda keys, held: call.report(keys, number=10, most=10_000, events=b"\n".join([PROGRESS] * 10), **held)
    ),
    "save": of_running(lambda keys, held: call.save(keys, most=1_000_000, name="page", value=b"[1]", **held)),
    "checkpoint": of_running(
        lambda keys, held: call.checkpoint(keys, most=1_000_000, name="page", value=b"[1]", **held)
    ),
    "complete": of_running(lambda keys, held: call.complete(keys, event=COMPLETED, **held)),
    "fail, tried again": of_running(
        lambda keys, held: call.fail(keys, attempts=3, delay_ms=3_600_000, more=ERROR, **PLENTY, **held)
    ),
    "fail, the end": of_running(
        lambda keys, held: call.fail(keys, attempts=0, delay_ms=0, more=ERROR, **PLENTY, **held)
    ),
    "delay": of_running(lambda keys, held: call.delay(keys, delay_ms=3_600_000, hold=0, **PLENTY, **held)),
    "requeue": of_running(lambda keys, held: call.requeue(keys, max_starts=100, **held)),
    "release": of_running(lambda keys, held: call.release(keys, max_starts=100, **held)),
    "cancel": cancel,
    "beat, 40 running jobs": beat,
    "wake, nothing due": wake,
}


class CountedServer:
    """A server whose instructions are counted."""

    def __init__(self, store: OwnStore, dumps: Path) -> None:
        self.store = store
        self._dumps = dumps

    async def instructions(self) -> int:
        """The instructions since the last call."""
        known = set(self._dumps.iterdir())
        control = ["callgrind_control", "--dump", str(self.store.pid)]
        done = await anyio.run_process(control, check=False)
        written = set(self._dumps.iterdir()) - known
        if done.returncode or not written:
            raise TailraceError(f"callgrind_control did not answer: {done.stderr.decode(errors='replace').strip()}")
        (dump,) = written
        totals = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
        dump.unlink()
        return int(totals[1]) if totals else 0


@contextmanager
def counted_server() -> Iterator[CountedServer]:
    missing = [name for name in ("valgrind", "callgrind_control") if not shutil.which(name)]
    if missing:
        raise TailraceError(
            f"{missing[0]} is not there to count instructions: install it with apt-get install valgrind"
        )
    with tempfile.TemporaryDirectory() as folder:
        dumps, server = Path(folder) / "dumps", Path(folder) / "server"
        dumps.mkdir()
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={dumps}/%p"]
        server.write_text(f'#!/bin/sh\nexec {shlex.join([*tool, str(find_server())])} "$@"\n')
        server.chmod(0o700)
        calm = ("--appendonly", "no", "--hz", "1", "--dynamic-hz", "no")
        with OwnStore(Path(folder) / "store", server=server, extra_args=calm) as store:
            yield CountedServer(store, dumps)


async def take(counted: CountedServer, tell: Callable[[str], None]) -> tuple[str, Costs]:
    """The server, and the costs of all scenes."""
    costs: Costs = {}
    async with Store(counted.store.url, answer_seconds=ANSWER_SECONDS) as store:
        server = await read_server(store)
        for name, scene in SCENES.items():
            tell(name)

            async def spent(calls: int, size: int, scene: Scene = scene) -> float:
                await store.command("FLUSHALL")
                stage = Stage(store)
                operations = await scene(stage, (calls + 1) * size)
                await stage.run(operations[:size])  # from here on the server knows the script
                await counted.instructions()
                for first in range(size, len(operations), size):
                    await stage.run(operations[first : first + size])
                return await counted.instructions() / calls

            alone, many = await spent(ALONE, 1), await spent(BATCHES, BATCH)
            costs[name] = Cost(round(alone / 1000), round(many / BATCH / 1000))
    return f"{server.name} {server.version}", costs


def dearer(now: int, noted: int) -> bool:
    return now > noted * (1 + TOLERANCE)


def run(options: argparse.Namespace) -> int:
    noted = msgspec.json.decode(NOTED.read_bytes() if NOTED.exists() else b"{}", type=dict[str, Costs])
    with counted_server() as counted:
        tell = (lambda name: None) if options.json else lambda name: say(f"counting {name}")
        server, costs = anyio.run(take, counted, tell)
    if options.json:
        both = msgspec.json.encode({**noted, server: costs}, order="sorted")
        os.write(1, msgspec.json.format(both, indent=1) + b"\n")
        return 0
    return show(server, costs, noted.get(server, {}))


def show(server: str, costs: Costs, noted: Costs) -> int:
    """Print the table; whether anything became dearer."""
    found = Rows(("transition", "alone", "noted", "among 40", "noted", "dearer"))
    worse = False
    for name, cost in costs.items():
        before = noted.get(name, cost)
        change = max(cost.alone / before.alone, cost.each / before.each) - 1
        is_dearer = dearer(cost.alone, before.alone) or dearer(cost.each, before.each)
        worse = worse or is_dearer
        found.add(
            name,
            f"{cost.alone:,}",
            f"{before.alone:,}",
            f"{cost.each:,}",
            f"{before.each:,}",
            f"{change:+.1%}" if is_dearer else "",
        )
    found.show()
    print(f"thousands of instructions of {server}; noted in {NOTED.name}")
    if not noted:
        print(f"nothing is noted of {server}: write what --json prints to {NOTED}")
    elif worse:
        print(f"dearer by over {TOLERANCE:.0%}: find out why; if it is worth it, write what --json prints to {NOTED}")
    return int(worse)
