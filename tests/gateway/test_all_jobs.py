"""One stream of many jobs: every event from `started` on, of those a client wants to hear of."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from tests.gateway.event_source import Message, all_jobs, live
from tests.gateway.gateways import gateway_thread
from tests.support.builders import Desk, tell
from tests.support.faults import Link
from tests.support.problems import problem_of


def of(messages: list[Message], *keys: str) -> list[str]:
    told = [message.told for message in messages if message.event == "message"]
    return [f"{event.jobId} {tell(event)}" for event in told if event.jobId.partition(".")[2] in keys]


async def test_every_job_is_told_from_its_start_on(gateway: str, desk: Desk, desk_on: Callable[[str], Desk]) -> None:
    shop = desk_on("ably")
    async with all_jobs(gateway) as source, source.open() as reading:
        await live(desk, reading)
        one, other = await desk.start("one"), await shop.start("other")
        await desk.report(one, 1)
        await shop.complete(other)
        await desk.complete(one)
        messages: list[Message] = []
        while len(of(messages, "one", "other")) < 5:
            messages += await reading.take(1)
    told = of(messages, "one", "other")
    assert [line for line in told if line.startswith("research")] == [
        "research.one started 1",
        "research.one progress 1 step 1",
        "research.one completed 1",
    ]
    assert [line for line in told if line.startswith("ably")] == ["ably.other started 1", "ably.other completed 1"]


@pytest.mark.parametrize("query", ["?platform=ably", "?jobs=ably.mine", "?platform=ably&jobs=ably.mine"])
async def test_a_client_hears_only_of_what_it_asked_for(
    gateway: str, desk: Desk, desk_on: Callable[[str], Desk], query: str
) -> None:
    shop = desk_on("ably")
    async with all_jobs(gateway, query) as source, source.open() as reading:
        taking = asyncio.create_task(reading.take(2))
        number = 0
        while not taking.done():
            number += 1
            await desk.complete(await desk.start(f"theirs-{number}"))
            await shop.submit("mine") if number == 20 else None
            if number == 21:
                await shop.complete((await shop.claim())[0])
            await asyncio.wait([taking], timeout=0.02)
            assert number < 500
    assert of(taking.result(), "mine") == ["ably.mine started 1", "ably.mine completed 1"]


async def test_who_comes_back_is_told_that_there_may_be_a_gap(gateway: str, desk: Desk) -> None:
    async with all_jobs(gateway) as source, source.open("7-1") as reading:
        assert (await reading.take(1))[0].event == "reset"


async def test_a_head_is_answered_at_once_as_a_stream_begins(http: httpx2.AsyncClient) -> None:
    head = await http.head("/api/events")
    async with http.stream("GET", "/api/events") as stream:
        names = ("content-type", "cache-control", "x-accel-buffering", "connection", "content-length")
        assert [head.headers.get(name) for name in names] == [stream.headers.get(name) for name in names]
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("query", "field"), [("?platform=amazon", "platform"), ("?jobs=x", "jobs"), ("?jobs=amazon.a", "jobs")]
)
async def test_what_cannot_be_is_refused(http: httpx2.AsyncClient, query: str, field: str) -> None:
    assert problem_of(await http.get(f"/api/events{query}"), 422, "WRONG_FIELD")["field"] == field


async def test_whoever_is_answered_hears_of_what_happens_next(gateway: str, desk: Desk) -> None:
    for number in range(5):  # no client watched before, each time
        async with all_jobs(gateway) as source, source.open() as reading:
            await desk.start(f"next-{number}")
            assert of(await reading.take(1), f"next-{number}") == [f"research.next-{number} started 1"]


@pytest.mark.usefixtures("single_server")
async def test_who_heard_nothing_before_a_gap_is_told_of_the_gap(valkey_url: str, desk: Desk) -> None:
    async with Link(valkey_url) as link:
        with gateway_thread(link.url) as gateway:
            async with all_jobs(gateway.url) as source, source.open() as reading:
                link.cut()
                await desk.complete(await desk.start("missed"))
                await link.heal()
                assert (await reading.take(1))[0].event == "reset"
