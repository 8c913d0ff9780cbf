"""A storm: jobs keep coming while workers, hearts, links, gateways and the store itself are hit at random."""

import asyncio
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from random import Random
from typing import Any

from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Submission
from tailrace.producers.submissions import Submitted
from tailrace.streams.errors import StoreError
from tailrace.streams.history.events import Event
from tailrace.streams.options import Options
from tailrace.streams.store.connection import ANSWER_SECONDS
from tests.support.checker import Span
from tests.support.deployment import Deployment
from tests.support.faults import Link
from tests.support.processes import ConsumerProcess, Pace

PACE = Pace(
    deadline=3.0, beat=0.3, reap=0.3, grace=0.3
)  # a new heart and a lost beat fit into it, on a busy machine too
SHORT, LONG = (0.1, 0.6), (1.2 * PACE.deadline, 1.6 * PACE.deadline)  # seconds; nothing in between could be judged

HEART_SECONDS = 1.5  # until a new heart beats, on a busy machine: meanwhile its consumer claims nothing
REST = 1.5  # seconds the store is left alone after a fault: hit without a pause, it is one long outage and no storm

SHOPS = ("kurly", "hwahae")
METERED = "metered"  # a few at a time, and not too often
FLEETING = "fleeting"  # many short jobs, forgotten soon after their end
PLATFORMS = (*SHOPS, "research", METERED, FLEETING)

OVERALL, RATE, RATE_SECONDS = 2, 4, 1.0  # of the metered platform
PER_KEY = 2  # jobs of one limit key at a time, on research
BURST = 20  # fleeting jobs that come at once

RULES = {
    "research": f"max_running_per_key = {PER_KEY}\n",
    METERED: f"max_running = {OVERALL}\nper_process = {OVERALL}\nrate = {RATE}\nrate_seconds = {RATE_SECONDS}\n",
    FLEETING: "keep_completed_seconds = 1\n",
}
CONFIG = "".join(  # every history but the fleeting ones is looked at in the end
    f"[platforms.{name}]\nmax_crashes = 1000\nkeep_completed = 0\n{RULES.get(name, '')}" for name in PLATFORMS
)
WORKERS, GATEWAYS = 3, 2


def ask(platform: str, dice: Random) -> dict[str, Any]:
    """What one job is asked to do, and how: some block the loop, some fail once, some have keys or a priority."""
    longest = 4 if platform in SHOPS else 12  # a shop does one at a time, and no queue should grow for ever
    if platform == METERED:
        longest = 3
    args: dict[str, Any] = {"steps": dice.randint(1, longest), "seconds": dice.uniform(0.01, longest / 40)}
    options: dict[str, Any] = {}
    if dice.random() < 0.1:
        args["block"] = "sleep"
    if platform not in SHOPS:
        options["priority"] = dice.choice(("normal", "normal", "high", "low"))
        if dice.random() < 0.1:
            args["fail_times"] = 1
            options |= {"backoff_seconds": 0.2}
    if platform == "research":
        options |= dice.choice(({}, {"limit_key": f"k{dice.randint(1, 3)}"}, {"order_key": f"o{dice.randint(1, 3)}"}))
    return {"args": args, "options": Options(**options)}


Fault = Callable[["Storm"], Coroutine[Any, Any, None]]


class Worker:
    """A place where a consumer runs, with a link of its own; a consumer that dies there is replaced."""

    def __init__(self, consumer: ConsumerProcess, link: Link) -> None:
        self.consumer = consumer
        self.link = link
        self.busy = asyncio.Lock()  # one fault at a time
        self.absent: list[Span] = []  # when a fault was at work on it


class Storm:
    """Everything that is hit, and a ledger of what was done to whom."""

    def __init__(self, deployment: Deployment, store: OwnStore, dice: Random) -> None:
        self.deployment = deployment
        self.dice = dice
        self.faults: Counter[str] = Counter()
        self.harmed: dict[str, float] = {}  # since when a worker may rightly be taken for lost
        self.clients: dict[str, asyncio.Task[list[Event]]] = {}
        self.keyed: defaultdict[str, list[str]] = defaultdict(list)  # jobs by their limit or order key
        self.fleeting = 0  # jobs that are forgotten soon after their end
        self._store = store
        self._store_busy = asyncio.Lock()
        self._gateway_busy = asyncio.Lock()
        self._links = AsyncExitStack()
        self._workers: list[Worker] = []
        self._outages: list[Span] = []

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Two gateways and three workers."""
        async with self._links:
            for _ in range(GATEWAYS):
                await self.deployment.gateway()
            links = [await self._links.enter_async_context(Link(self.deployment.url)) for _ in range(WORKERS)]
            consumers = await asyncio.gather(*map(self._consumer, links))
            self._workers = [Worker(consumer, link) for consumer, link in zip(consumers, links, strict=True)]
            yield

    async def rage(self, faults: int) -> None:
        """Let jobs come in until all faults are over."""
        async with asyncio.TaskGroup() as both:
            coming = both.create_task(self._submit(Random(self.dice.random())))
            async with asyncio.TaskGroup() as tasks:
                for fault in self._deck(faults):
                    self.faults[fault.__name__] += 1
                    tasks.create_task(fault(self))
                    await asyncio.sleep(self.dice.uniform(0.2, 1.2))
            coming.cancel()

    async def _submit(self, dice: Random) -> None:
        """One job after the other, each insisted on until the store has taken it."""
        number = 0
        while True:
            number += 1
            platform = dice.choice(PLATFORMS)
            if platform == FLEETING:
                burst = [
                    Submission(FLEETING, "drill", {"steps": 1, "seconds": 0}, id=f"job-{number}-{n}")
                    for n in range(BURST)
                ]
                self.fleeting += len(await self._insist(burst))
            else:
                asked = ask(platform, dice)
                (job_id,) = await self._insist([Submission(platform, "drill", id=f"job-{number}", **asked)])
                self.deployment.accepted.append(job_id)
                if label := asked["options"].limit_key or asked["options"].order_key:
                    self.keyed[label].append(job_id)
                if dice.random() < 0.2:
                    self.clients[job_id] = self.deployment.follow(dice.choice(self.deployment.gateways), job_id)
            await asyncio.sleep(dice.uniform(0.02, 0.15))

    async def _insist(self, submissions: list[Submission]) -> list[str]:
        while True:
            try:
                answers = await self.deployment.producer.submit_many(submissions)
            except StoreError:
                await asyncio.sleep(0.05)
            else:
                taken = [answer.id for answer in answers if isinstance(answer, Submitted)]
                assert len(taken) == len(submissions), f"refused: {answers}"
                return taken

    def _deck(self, count: int) -> Iterator[Fault]:
        """Faults in random order, all of them before one comes again."""
        for start in range(0, count, len(FAULTS)):
            yield from self.dice.sample(FAULTS, min(len(FAULTS), count - start))

    def out_of_work(self) -> list[Span]:
        """When there was no store, or a fault at work on every worker."""
        common = self._workers[0].absent
        for worker in self._workers[1:]:
            common = [
                Span(max(one.begin, other.begin), min(one.end, other.end))
                for one in common
                for other in worker.absent
                if one.begin < other.end and other.begin < one.end
            ]
        return [*common, *self._outages]

    # To a worker

    @asynccontextmanager
    async def _some_worker(self) -> AsyncIterator[Worker]:
        worker = self.dice.choice(self._workers)
        async with worker.busy:
            with during(worker.absent):
                yield worker

    async def _consumer(self, link: Link) -> ConsumerProcess:
        return await self.deployment.consumer(*PLATFORMS, pace=PACE, url=link.url)

    async def kill_a_worker(self) -> None:
        async with self._some_worker() as worker:
            self._blame(worker)
            self.dice.choice((worker.consumer.kill, worker.consumer.kill_group))()
            worker.consumer = await self._consumer(worker.link)

    async def freeze_a_worker(self) -> None:
        async with self._some_worker() as worker:
            seconds = self._harm(worker)
            worker.consumer.freeze()
            await asyncio.sleep(seconds)
            worker.consumer.thaw()

    async def drain_a_worker(self) -> None:
        async with self._some_worker() as worker:
            worker.consumer.interrupt()
            code = await worker.consumer.ended()
            assert code == (1 if worker.consumer.said("not_handed_back") else 0), f"a drained worker ended with {code}"
            self._blame(worker)  # what it could not hand back, because the store was away, is found later
            worker.consumer = await self._consumer(worker.link)

    async def kill_a_heart(self) -> None:
        async with self._some_worker() as worker:
            if worker.consumer.heart:
                worker.consumer.kill_heart()
                await asyncio.sleep(HEART_SECONDS)

    async def cut_a_link(self) -> None:
        async with self._some_worker() as worker:
            seconds = self._harm(worker)
            worker.link.cut()
            await asyncio.sleep(seconds)
            await worker.link.heal()

    async def swallow_on_a_link(self) -> None:
        async with self._some_worker() as worker:
            seconds = self._harm(worker)
            lost = self.dice.choice(({}, {"requests": False}, {"replies": False}))
            worker.link.swallow(**lost)
            await asyncio.sleep(seconds)
            await worker.link.heal()

    async def lose_a_reply(self) -> None:
        async with self._some_worker() as worker:
            worker.link.drop_reply(
                to=self.dice.choice((b"\r\nclaim\r\n", b"\r\ncomplete\r\n", b"\r\nreport\r\n", b"\r\nbeat\r\n"))
            )
            await asyncio.sleep(ANSWER_SECONDS)

    def _harm(self, worker: Worker) -> float:
        """For how long: unnoticed, or so long that its consumer may count as lost."""
        if (seconds := self._seconds()) > SHORT[1]:
            self._blame(worker)
        return seconds

    def _blame(self, worker: Worker) -> None:
        self.harmed.setdefault(worker.consumer.owner, time.time())

    def _seconds(self) -> float:
        """Clearly shorter than the deadline or clearly longer."""
        return self.dice.uniform(*self.dice.choice((SHORT, LONG)))

    # To what all share

    async def kill_the_store(self) -> None:
        async with self._store_busy:
            with during(self._outages):
                self._store.kill()
                await asyncio.sleep(self._seconds())
                self._store.start()
            await asyncio.sleep(REST)

    async def pause_the_store(self) -> None:
        async with self._store_busy:
            with during(self._outages):
                os.kill(self._store.pid, signal.SIGSTOP)
                await asyncio.sleep(self._seconds())
                os.kill(self._store.pid, signal.SIGCONT)
            await asyncio.sleep(REST)

    async def kill_a_gateway(self) -> None:
        async with self._gateway_busy:
            gateway = self.dice.choice(self.deployment.gateways)
            gateway.kill_group()
            await self.deployment.gateway(again=gateway)


@contextmanager
def during(spans: list[Span]) -> Iterator[None]:
    """Note for how long something lasts; an end that has not come yet is far away."""
    begin = time.time_ns() // 1000
    spans.append(Span(begin, 2 * begin))
    try:
        yield
    finally:
        spans.remove(Span(begin, 2 * begin))
        spans.append(Span(begin, time.time_ns() // 1000))


FAULTS: tuple[Fault, ...] = (
    Storm.kill_a_worker,
    Storm.freeze_a_worker,
    Storm.drain_a_worker,
    Storm.kill_a_heart,
    Storm.cut_a_link,
    Storm.swallow_on_a_link,
    Storm.lose_a_reply,
    Storm.kill_the_store,
    Storm.pause_the_store,
    Storm.kill_a_gateway,
)
