"""A storm: jobs keep coming while workers, hearts, links, gateways and the store itself are hit at random."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from ops.store import OwnStore
from producers import Submission
from streams.errors import StoreError
from streams.messages import Event
from tests.support.deployment import Deployment
from tests.support.faults import Link
from tests.support.processes import ConsumerProcess, Pace

PACE = Pace(
    deadline=3.0, beat=0.3, reap=0.3, grace=0.3
)  # a new heart and a lost beat fit into it, on a busy machine too
SHORT, LONG = (0.1, 0.6), (1.2 * PACE.deadline, 1.6 * PACE.deadline)  # seconds; nothing in between could be judged

REST = 1.5  # seconds the store is left alone after a fault: hit without a pause, it is one long outage and no storm

SHOPS = ("kurly", "hwahae")
PLATFORMS = (*SHOPS, "research")
WORKERS, GATEWAYS = 3, 2


Fault = Callable[["Storm"], Coroutine[Any, Any, None]]


class Worker:
    """A place where a consumer runs, with a link of its own; whoever dies there is replaced."""

    def __init__(self, consumer: ConsumerProcess, link: Link) -> None:
        self.consumer = consumer
        self.link = link
        self.busy = asyncio.Lock()  # one fault at a time


class Storm:
    """Everything that is hit, and a ledger of what was done to whom."""

    def __init__(self, deployment: Deployment, store: OwnStore, dice: Random) -> None:
        self.deployment = deployment
        self.dice = dice
        self.faults: Counter[str] = Counter()
        self.harmed: dict[str, float] = {}  # since when a worker may rightly be taken for lost
        self.clients: dict[str, asyncio.Task[list[Event]]] = {}
        self._store = store
        self._store_busy = asyncio.Lock()
        self._gateway_busy = asyncio.Lock()
        self._links = AsyncExitStack()
        self._workers: list[Worker] = []
        self._config = deployment.folder / "tailrace.toml"

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Two gateways and three workers."""
        rules = "max_crashes = 1000\nkeep_completed = 0\n"  # every history is looked at in the end
        self._config.write_text("".join(f"[platforms.{name}]\n{rules}" for name in PLATFORMS))
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
            longest = 4 if platform in SHOPS else 12  # a shop does one at a time, and no line should grow for ever
            args = {"steps": dice.randint(1, longest), "seconds": dice.uniform(0.01, longest / 40)}
            blocks = {"block": "sleep"} if dice.random() < 0.1 else {}
            job_id = await self._insist(Submission(platform, "drill", {**args, **blocks}, id=f"job-{number}"))
            if dice.random() < 0.2:
                self.clients[job_id] = self.deployment.follow(dice.choice(self.deployment.gateways), job_id)
            await asyncio.sleep(dice.uniform(0.02, 0.15))

    async def _insist(self, submission: Submission) -> str:
        while True:
            try:
                submitted = await self.deployment.producer.submit(submission)
            except StoreError:
                await asyncio.sleep(0.05)
            else:
                self.deployment.accepted.append(submitted.job_id)
                return submitted.job_id

    def _deck(self, count: int) -> Iterator[Fault]:
        """Faults in random order, all of them before one comes again."""
        for start in range(0, count, len(FAULTS)):
            yield from self.dice.sample(FAULTS, min(len(FAULTS), count - start))

    # To a worker

    @asynccontextmanager
    async def _some_worker(self) -> AsyncIterator[Worker]:
        worker = self.dice.choice(self._workers)
        async with worker.busy:
            yield worker

    async def _consumer(self, link: Link) -> ConsumerProcess:
        return await self.deployment.consumer(*PLATFORMS, pace=PACE, url=link.url, TAILRACE_CONFIG=str(self._config))

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
            assert code == 0, f"a drained worker ended with code {code}"
            self._blame(worker)  # what it could not hand back, because the store was away, is found later
            worker.consumer = await self._consumer(worker.link)

    async def kill_a_heart(self) -> None:
        async with self._some_worker() as worker:
            if worker.consumer.heart:
                worker.consumer.kill_heart()

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

    def _harm(self, worker: Worker) -> float:
        """For how long: unnoticed, or so long that whoever is hit may be taken for lost."""
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
            self._store.kill()
            await asyncio.sleep(self._seconds())
            self._store.start()
            await asyncio.sleep(REST)

    async def pause_the_store(self) -> None:
        async with self._store_busy:
            os.kill(self._store.pid, signal.SIGSTOP)
            await asyncio.sleep(self._seconds())
            os.kill(self._store.pid, signal.SIGCONT)
            await asyncio.sleep(REST)

    async def kill_a_gateway(self) -> None:
        async with self._gateway_busy:
            gateway = self.dice.choice(self.deployment.gateways)
            gateway.kill_group()
            await self.deployment.gateway(again=gateway)


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
