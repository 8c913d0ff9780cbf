"""The end of a gateway: streams close with a time to come back, drawn by lot, and nothing holds it up."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2
import pytest

from tailrace.gateway.live.frames import farewell, greeting, store_away
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource, Reading, all_jobs
from tests.gateway.gateways import GatewayProcess
from tests.gateway.raw import open_socket, silent
from tests.support.builders import Desk
from tests.support.eventually import eventually

GOODBYE = "this gateway ends; come back"


@pytest.fixture
def process(valkey_url: str) -> Iterator[GatewayProcess]:
    """One that ends at once or after more time than a test has."""
    with GatewayProcess(valkey_url, grace_seconds=600) as process:
        yield process


@pytest.fixture
async def frail_desk(frail: OwnStore) -> AsyncIterator[Desk]:
    async with Store(frail.url) as store:
        yield Desk(store, "research")


@contextmanager
def frozen(server: OwnStore) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("words", [greeting, farewell, store_away])
def test_when_to_come_back_is_drawn_by_lot(words: object) -> None:
    assert callable(words)
    drawn = {int(words().partition(b"retry: ")[2]) for _ in range(200)}
    assert len(drawn) > 50
    assert max(drawn) - min(drawn) > 500, "thousands of clients would come back within half a second"


async def test_every_stream_ends_with_a_time_to_come_back(process: GatewayProcess, desk: Desk) -> None:
    await desk.start("a")
    open_streams = asyncio.Semaphore(0)

    async def watch(source: EventSource) -> Reading:
        async with source, source.open() as reading:
            open_streams.release()
            taken = await reading.rest()
            assert all(message.event == "message" for message in taken)
            return reading

    sources = [EventSource(process.url, "research.a") for _ in range(10)] + [all_jobs(process.url) for _ in range(10)]
    watching = [asyncio.create_task(watch(source)) for source in sources]
    for _ in sources:
        await open_streams.acquire()
    process.process.terminate()
    ended = await asyncio.wait_for(asyncio.gather(*watching), 20)
    assert all(reading.comments[-1] == GOODBYE for reading in ended)
    assert len({reading.retry for reading in ended}) > 5
    await asyncio.to_thread(process.stop)
    assert process.process.returncode == 0


async def test_clients_that_do_not_read_hold_nothing_up(process: GatewayProcess, desk: Desk) -> None:
    held = await desk.start("a")
    with silent(process.port, "/research/stream/research.a", 2), silent(process.port, "/api/events", 2):
        async with all_jobs(process.url) as source, source.open() as reading:
            heard = asyncio.create_task(reading.take(3000))  # more than the kernel takes for those who do not read
            number = 0
            while not heard.done():
                batch = [desk.reporting(held, number + n) for n in range(1, 101)]
                await desk.transitions.commit(desk.keys, batch)
                number += 100
                assert number < 20_000
                await asyncio.wait([heard], timeout=0.02)
        said = await asyncio.to_thread(process.stop)
    assert process.process.returncode == 0
    assert "Cancel" not in said


async def test_a_store_that_hangs_holds_no_stream_up(frail: OwnStore, frail_desk: Desk) -> None:
    """Its clients wait for the first read of a history; they too are sent elsewhere, and not with a 500."""
    await frail_desk.start("a")
    with GatewayProcess(frail.url) as process:
        async with httpx2.AsyncClient(base_url=process.url, timeout=20, verify=False) as http:
            with frozen(frail):
                waiting = [asyncio.create_task(http.get("/research/stream/research.a")) for _ in range(3)]
                await asyncio.wait(waiting, timeout=0.5)
                assert not any(each.done() for each in waiting), "they wait for the store"
                process.process.terminate()
                for answer in await asyncio.gather(*waiting):
                    assert answer.status_code == 200
                    assert GOODBYE in answer.text, "and not that the store does not answer, which takes longer"
        said = await asyncio.to_thread(process.stop)
    assert process.process.returncode == 0
    assert "Cancel" not in said


@pytest.mark.chaos
async def test_who_waits_for_a_store_that_hangs_is_answered_before_the_end(frail: OwnStore) -> None:
    with GatewayProcess(frail.url) as process:
        async with httpx2.AsyncClient(base_url=process.url, timeout=20, verify=False) as http:
            with frozen(frail):
                waiting = asyncio.create_task(http.get("/api/jobs/research.a"))
                await asyncio.wait([waiting], timeout=0.5)
                process.process.terminate()
                assert (await waiting).status_code == 503
        said = await asyncio.to_thread(process.stop)
    assert "Cancel" not in said


async def test_who_comes_while_it_drains_is_not_refused_for_good(process: GatewayProcess, desk: Desk) -> None:
    """A 503 would end a browser's EventSource for ever; a connection that is not accepted has it try again."""
    await desk.start("a")
    head = b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    reader, writer = await open_socket(process.url, head)  # keeps the gateway from its end

    async def taken() -> bool:
        async with httpx2.AsyncClient(base_url=process.url, verify=False) as http:
            return (await http.get("/healthz")).status_code == 200

    await eventually("the request is under way", taken)
    idle_reader, idle_writer = await open_socket(process.url, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await idle_reader.readline()).startswith(b"HTTP/1.1 200 ")
    process.process.terminate()

    async def refused() -> bool:
        try:
            address = urlsplit(process.url)
            _, other = await asyncio.open_connection(address.hostname, address.port)
        except ConnectionRefusedError:
            return True
        other.close()
        return False

    await eventually("no connection is accepted any more", refused)
    assert process.process.poll() is None, "it drains"
    idle_writer.write(b"GET /research/stream/research.a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP/1.1 5" not in await asyncio.wait_for(idle_reader.read(), 20)
    writer.write(b" " * 97 + b"}}")
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 4"), "the open request is answered"
    for each in (writer, idle_writer):
        each.close()
