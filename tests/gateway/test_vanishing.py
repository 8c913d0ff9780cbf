"""Jobs that vanish without a word (FLUSHALL, a drop, retention): their streams are closed, and none is opened."""

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from tailrace.gateway.live.live import SURE_SECONDS
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource, told
from tests.gateway.gateways import GatewayProcess
from tests.gateway.histories import race
from tests.support.builders import Desk

PING_SECONDS = 0.5


@pytest.fixture
def pinging(valkey_url: str) -> Iterator[str]:
    """A gateway whose pings come soon."""
    with GatewayProcess(valkey_url, ping_seconds=PING_SECONDS) as gateway:
        yield gateway.url


async def test_when_the_store_is_emptied_every_open_stream_is_reset_and_closed(
    pinging: str, desk: Desk, store: Store
) -> None:
    await race(desk, "a")
    await desk.submit("b")
    async with (
        EventSource(pinging, "research.a") as a,
        EventSource(pinging, "research.b") as b,
        a.open() as reading_a,
        b.open() as reading_b,
    ):
        await reading_a.take(7)
        await reading_b.take(1)
        await store.command("FLUSHALL")
        assert told(await asyncio.wait_for(reading_a.rest(), 20)) == ["reset"]
        assert told(await asyncio.wait_for(reading_b.rest(), 20)) == ["reset"]
        async with a.open(reading_a.last_id) as again:
            assert again.response.status_code == 404


async def test_a_job_that_was_replaced_without_a_word_is_told_anew(pinging: str, desk: Desk, store: Store) -> None:
    await desk.submit("a")
    for _ in range(20):
        async with EventSource(pinging, "research.a") as source, source.open() as reading:
            await reading.take(1)
            await store.command("FLUSHALL")
            await desk.submit("a")
            seen = told(await reading.take(2))
        if seen != ["reset"]:  # the gateway looked in between, when there was no job
            break
    assert seen == ["reset", "queued"]


async def test_a_stream_of_a_job_that_vanished_while_another_watches_is_not_found(
    gateway: str, http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    """A new client does not get an answer that others got long ago."""
    await desk.submit("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(1)
        await asyncio.sleep(SURE_SECONDS + 0.1)  # for as long a word about it counts
        await store.command("FLUSHALL")
        assert (await http.get("/research/history/research.a")).status_code == 404
        async with source.open() as late:
            assert late.response.status_code == 404
        assert told(await asyncio.wait_for(reading.rest(), 20)) == ["reset"], "and the others hear of it at once"
