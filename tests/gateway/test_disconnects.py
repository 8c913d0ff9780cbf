"""Clients that lose their connection again and again, between two gateways: each ends with exactly the history."""

import asyncio
import random

import httpx2

from tailrace.streams.messages import Claim
from tests.gateway.event_source import EventSource, Message
from tests.support.builders import Desk

JOBS = 5
CLIENTS_PER_JOB = 2
DISCONNECTS = 500
SHARE = DISCONNECTS // (JOBS * CLIENTS_PER_JOB)


class Client:
    """Reads a little, drops the connection, comes back to either gateway with the last id."""

    def __init__(self, gateways: tuple[str, str], job_id: str, chance: random.Random) -> None:
        self.sources = [EventSource(gateway, job_id) for gateway in gateways]
        self.chance = chance
        self.messages: list[Message] = []
        self.disconnects = 0

    async def run(self) -> None:
        while self.disconnects < SHARE:
            await self._read(self.chance.choice([0, 0, 1, 2, 5, 20]))
            self.disconnects += 1
        await self._read(None)
        for source in self.sources:
            await source.__aexit__()

    async def _read(self, patience: int | None) -> None:
        last_id = self.messages[-1].id if self.messages else None
        source = self.chance.choice(self.sources)
        async with source.open(last_id, in_query=self.chance.random() < 0.3) as reading:
            assert reading.response.status_code == 200
            if patience == 0:
                return
            async for message in reading.messages():
                if message.event == "end":
                    return
                self.messages.append(message)
                if patience is not None and self.chance.random() < 1 / patience:
                    return


async def work(desk: Desk, held: Claim, clients: list[Client], one_at_a_time: asyncio.Lock) -> None:
    """A job that goes on until its clients have had their share of trouble, now and then under a new worker."""
    number = 0
    while any(client.disconnects < SHARE for client in clients):
        for _ in range(5):
            number += 1
            await desk.report(held, number)
        if number % 50 == 0:
            async with one_at_a_time:
                await desk.release(held)
                (held,) = await desk.claim("bob")
            number = 0
        await asyncio.sleep(0.002)  # a pace at which clients sometimes catch up and sometimes do not
    await desk.complete(held)


async def test_the_union_of_500_broken_streams_is_the_history(
    http: httpx2.AsyncClient, gateways: tuple[str, str], desk: Desk
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    keys = [f"j{number}" for number in range(JOBS)]
    clients: dict[str, list[Client]] = {}
    await desk.submit(*keys)
    one_at_a_time = asyncio.Lock()
    async with asyncio.TaskGroup() as tasks:
        for held in await desk.claim("ann", len(keys)):
            key = held.key
            clients[key] = [
                Client(gateways, f"research.{key}", random.Random(chance.random())) for _ in range(CLIENTS_PER_JOB)
            ]
            for client in clients[key]:
                tasks.create_task(client.run())
            tasks.create_task(work(desk, held, clients[key], one_at_a_time))
    for key in keys:
        history = (await http.get(f"/research/history/research.{key}")).text
        for client in clients[key]:
            assert all(message.event == "message" for message in client.messages), f"a reset; seed {seed}"
            assert f"[{','.join(message.data for message in client.messages)}]" == history, f"seed {seed}"
    assert sum(client.disconnects for each in clients.values() for client in each) == DISCONNECTS
