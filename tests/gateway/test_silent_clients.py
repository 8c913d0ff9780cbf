"""Clients that never read: they cost little, harm no other client, are dropped in time, and leave nothing behind."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import httpx2
import psutil
import pytest
from msgspec import Struct

from tailrace.streams.history.events import event_body
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource, all_jobs, live
from tests.gateway.gateways import GatewayProcess
from tests.gateway.raw import silent
from tests.support.builders import Desk
from tests.support.eventually import eventually

LARGE = "x" * 65_536
HEALTHY = 10
MEGABYTE = 1024 * 1024


class Footprint(Struct, frozen=True):
    """What a gateway holds."""

    files: int
    store_links: int
    memory: int


async def footprint(process: GatewayProcess, store: Store) -> Footprint:
    gateway = psutil.Process(process.process.pid)
    links = len((await store.command("CLIENT", "LIST")).splitlines())
    return Footprint(gateway.num_fds(), links, gateway.memory_info().rss)


@asynccontextmanager
async def peak(process: GatewayProcess) -> AsyncIterator[Callable[[], int]]:
    """The most memory the gateway held since this was opened."""
    gateway = psutil.Process(process.process.pid)
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, gateway.memory_info().rss)
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield lambda: most
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


class Healthy:
    """A client that reads, and notes how late each event comes."""

    def __init__(self, url: str, written: dict[int, float]) -> None:
        self._source = EventSource(url, "research.loud")
        self._written = written
        self.delays: list[float] = []

    async def run(self) -> None:
        async with self._source, self._source.open() as reading:
            async for message in reading.messages():
                if message.event == "message" and isinstance(step := message.told.step, int):
                    self.delays.append(time.monotonic() - self._written[step])


async def endure(
    process: GatewayProcess, desk: Desk, count: int, events: int, pace: float
) -> tuple[float, float, float]:
    """What silent clients do to a gateway: megabytes it grows by, p99 of the healthy, seconds until they are gone."""
    held = await desk.start("loud")
    before = await at_rest(process, desk.store)
    written: dict[int, float] = {}
    healthy = [Healthy(process.url, written) for _ in range(HEALTHY)]
    async with asyncio.TaskGroup() as tasks, peak(process) as most:
        for each in healthy:
            tasks.create_task(each.run())
        with silent(process.port, "/research/stream/research.loud", count):
            for number in range(1, events + 1):
                written[number] = time.monotonic()
                event = event_body(1, "progress", "ann", number, message=LARGE)
                await desk.transitions.report(desk.keys, "loud", held.nonce, number, event)
                await asyncio.sleep(pace)
            began = time.monotonic()

            async def gone() -> bool:
                return psutil.Process(process.process.pid).num_fds() <= before.files + HEALTHY + 1

            await eventually("the silent ones are let go", gone, seconds=90)
            took = time.monotonic() - began
        grown = (most() - before.memory) / MEGABYTE
        await desk.complete(held)
    delays = sorted(delay for each in healthy for delay in each.delays)
    assert len(delays) == HEALTHY * events, "the healthy ones miss nothing"
    await nothing_left(process, desk.store, before)
    return grown, delays[len(delays) * 99 // 100], took


async def at_rest(process: GatewayProcess, store: Store) -> Footprint:
    """What it holds while no client watches; its own connection to the store is open."""
    async with httpx2.AsyncClient(base_url=process.url, timeout=20, verify=False) as http:
        assert (await http.get("/readyz")).status_code == 200
    return await footprint(process, store)


async def nothing_left(process: GatewayProcess, store: Store, before: Footprint) -> None:
    async def look() -> bool:
        now = await footprint(process, store)
        return now.files <= before.files and now.store_links <= before.store_links

    await eventually("it holds no more than before", look)


async def test_silent_clients_cost_little_and_are_let_go(valkey_url: str, desk: Desk) -> None:
    with GatewayProcess(valkey_url, ping_seconds=1.0) as process:
        grown, _, _ = await endure(process, desk, 150, 20, 0.02)
    assert grown <= 12, "they share the bytes that wait for them"


@pytest.mark.chaos
@pytest.mark.timeout(240)
async def test_a_thousand_silent_clients_and_a_hundred_large_events(
    valkey_url: str, desk: Desk, tell: Callable[[str], None]
) -> None:
    with GatewayProcess(valkey_url) as process:
        grown, p99, took = await endure(process, desk, 1000, 100, 0.1)
    tell(
        f"1000 silent clients, 100 events of 64 KB: {grown:.0f} MB more, p99 {p99 * 1000:.0f} ms, gone in {took:.0f} s"
    )
    assert grown <= 64
    assert p99 < 1.0
    assert took <= 60


@pytest.mark.chaos
async def test_silent_clients_of_many_jobs_cost_little_and_are_let_go(valkey_url: str, desk: Desk) -> None:
    with GatewayProcess(valkey_url, ping_seconds=1.0) as process:
        before = await at_rest(process, desk.store)
        async with all_jobs(process.url) as source, source.open() as reading, peak(process) as most:
            await live(desk, reading)
            held = await desk.start("busy")
            hearing = asyncio.create_task(hear(reading.messages(), 5000))
            with silent(process.port, "/api/events", 100):
                for start in range(1, 5001, 100):
                    batch = [desk.reporting(held, number) for number in range(start, start + 100)]
                    await desk.transitions.commit(desk.keys, batch)
                    await asyncio.sleep(0.02)  # a pace that the healthy one can hold
                await asyncio.wait_for(hearing, 20)

                async def gone() -> bool:
                    return psutil.Process(process.process.pid).num_fds() <= before.files + 2

                await eventually("the silent ones are let go", gone, seconds=30)
        grown = (most() - before.memory) / MEGABYTE
        await nothing_left(process, desk.store, before)
    assert grown <= 24
    assert hearing.result() == list(range(1, 5001)), "the healthy one hears all of it"


async def hear(messages: AsyncIterator[object], last: int) -> list[object]:
    """The steps of the busy job, up to the last."""
    steps = []
    async for message in messages:
        told = message.told  # type: ignore[attr-defined]
        if told.jobId == "research.busy" and told.step is not None:
            steps.append(told.step)
            if told.step == last:
                break
    return steps
