"""Trees of jobs over many platforms while what runs them is killed; and a job with ten thousand children."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.states import Status
from tests.chaos.trees import CONFIG, HANDLERS, LEAVES, every_job, insist, outboxes_are_empty, went_on_once
from tests.support.checker import unclean
from tests.support.deployment import Deployment
from tests.support.long_runs import scaled
from tests.support.processes import UNHURRIED, ConsumerProcess, Pace

PACE = Pace(deadline=3.0, beat=0.3, reap=0.3, grace=0.3)
WIDTHS = [50, 2, 1]
JOBS = 1 + 50 + 100 + 100  # of one tree
GATEWAYS = 2

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[OwnStore]:
    with OwnStore(tmp_path / "store") as store:
        yield store


class Killer:
    """Kills what runs the trees, and starts it again."""

    def __init__(self, deployment: Deployment, store: OwnStore, dice: Random) -> None:
        self._deployment = deployment
        self._store = store
        self._dice = dice
        self._consumers: list[tuple[tuple[str, ...], ConsumerProcess]] = []
        self.told: dict[str, int] = {}

    async def begin(self) -> None:
        for _ in range(GATEWAYS):
            await self._deployment.gateway()
        for platforms in (("root",), ("root",), LEAVES, LEAVES, LEAVES):
            self._consumers.append((platforms, await self._start(platforms)))

    async def _start(self, platforms: tuple[str, ...]) -> ConsumerProcess:
        return await self._deployment.consumer(*platforms, pace=PACE, TAILRACE_HANDLERS=HANDLERS)

    async def strike(self) -> None:
        what = self._dice.choices(("consumer", "group", "heart", "gateway", "store"), (4, 4, 2, 2, 1))[0]
        self.told[what] = self.told.get(what, 0) + 1
        if what == "store":
            self._store.kill()
            await asyncio.sleep(self._dice.uniform(0.1, 0.5))
            self._store.start()
            return
        if what == "gateway":
            gateway = self._dice.choice(self._deployment.gateways)
            gateway.kill_group()
            await self._deployment.gateway(again=gateway)
            return
        place = self._dice.randrange(len(self._consumers))
        platforms, consumer = self._consumers[place]
        if what == "heart":
            if consumer.heart:
                consumer.kill_heart()
            return
        consumer.kill() if what == "consumer" else consumer.kill_group()
        self._consumers[place] = (platforms, await self._start(platforms))


async def test_trees_over_six_platforms_end_once_and_in_order_whatever_is_killed(
    store: OwnStore, tmp_path: Path, dice: Random, tell: Callable[[str], None]
) -> None:
    async with Deployment(store.url, tmp_path, CONFIG) as deployment:
        killer, effects = Killer(deployment, store, dice), tmp_path / "effects"
        await killer.begin()
        asked: dict[str, dict[str, Any]] = {}
        policies: list[dict[str, Any]] = [{}, {"breaks": 77, "on_failure": "collect"}, {}, {"breaks": 5}, {}]
        policies += [{"breaks": 99, "on_failure": "ignore"}]
        begun = time.monotonic()

        async def submit() -> None:
            for number, policy in enumerate(policies):
                args = {"widths": WIDTHS, "number": 0, "effects": str(effects), **policy}
                body = {"platform": "root", "kind": "branch", "args": args, "id": f"tree-{number}"}
                asked[await insist(deployment, dice, body)] = policy
                await asyncio.sleep(dice.uniform(1, 3))

        submitting = asyncio.create_task(submit())
        faults = scaled(50)
        for _ in range(faults):
            await killer.strike()
            await asyncio.sleep(dice.uniform(0.1, 0.8))
        await submitting
        for job, policy in asked.items():
            last = (await deployment.ended(job, seconds=120))[-1]
            breaks = policy.get("breaks", -1)
            if breaks >= 0 and policy.get("on_failure", "fail") == "fail":
                assert last.error
                assert (last.status, last.error.type) == (Status.FAILED, "ChildFailed")
            else:
                assert last.result == [None if number == breaks else number for number in range(100)]
        jobs = await every_job(deployment)
        await outboxes_are_empty(deployment)
        histories = await deployment.all_ended(jobs, seconds=60)
        assert unclean(histories) == []
        assert len(jobs) <= len(asked) * JOBS, "no child twice"
        ended = [job for job in asked if asked[job].get("breaks", -1) < 0]
        assert len(jobs) >= len(ended) * JOBS
        parents = went_on_once(histories, effects.read_text().splitlines())
        told = ", ".join(f"{count} {what}" for what, count in sorted(killer.told.items()))
        seconds = time.monotonic() - begun
        tell(
            f"trees: {faults} kills ({told}), {len(asked)} trees, {len(jobs)} jobs, "
            f"{parents} parents went on once each, {seconds:.0f} s"
        )


async def test_ten_thousand_children_cost_as_much_each_as_ten(
    store: OwnStore, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    async with Deployment(store.url, tmp_path, CONFIG) as deployment:
        await deployment.consumer("root", *LEAVES, pace=UNHURRIED, TAILRACE_HANDLERS=HANDLERS)
        await deployment.store.commands(
            [("CONFIG", "SET", "slowlog-log-slower-than", 5000), ("CONFIG", "SET", "slowlog-max-len", 1000)]
        )
        each: dict[int, float] = {}
        memory: dict[int, float] = {}
        slow: dict[int, float] = {}  # the share of script calls over 5 ms
        for count in (10, 100, 1000, 10_000):  # the first brings the scripts to the server
            before, begun = await used_memory(deployment), time.monotonic()
            await deployment.store.commands([("SLOWLOG", "RESET"), ("CONFIG", "RESETSTAT")])
            job = await deployment.submit("root", kind="fan", count=count)
            last = (await deployment.ended(job, seconds=300))[-1]
            each[count] = (time.monotonic() - begun) / count
            memory[count] = (await used_memory(deployment) - before) / count
            assert last.result == [count, True]
            log = await deployment.store.command("SLOWLOG", "GET", 1000)
            slow[count] = sum(entry[3][0] == b"EVALSHA" for entry in log) / await scripts_run(deployment)
        figures = (f"{n}: {1000 * each[n]:.2f} ms, {memory[n]:.0f} bytes each, {slow[n]:.2%} slow" for n in each)
        tell("children: " + "; ".join(figures))
        assert each[10_000] < 2 * each[1000]
        assert memory[10_000] < 1.5 * memory[1000]
        if os.getloadavg()[0] < 2 * (os.cpu_count() or 1):  # else calls wait for the processor now and then
            assert slow[10_000] < 0.001


async def scripts_run(deployment: Deployment) -> int:
    facts = (await deployment.store.command("INFO", "commandstats")).decode()
    return int(facts.partition("cmdstat_evalsha:calls=")[2].partition(",")[0])


async def used_memory(deployment: Deployment) -> int:
    facts = (await deployment.store.command("INFO", "memory")).decode()
    return int(facts.partition("used_memory:")[2].partition("\r")[0])
