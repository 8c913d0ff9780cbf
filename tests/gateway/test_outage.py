"""The store away and back again: requests are refused with a time to come back, streams go on by themselves."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2
import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource, all_jobs, told
from tests.gateway.gateways import GatewayProcess
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.problems import problem_of
from tests.support.server import flush


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStore]:
    """A server to be killed; on a port, because a socket file would stay behind."""
    with OwnStore(tmp_path_factory.mktemp("outage") / "frail", port=free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def process(server: OwnStore) -> Iterator[GatewayProcess]:
    """One gateway that goes through all of it."""
    with GatewayProcess(server.url) as process:
        yield process


@pytest.fixture
def frail(server: OwnStore) -> OwnStore:
    """The server, whatever the test before did to it: it runs and is empty."""
    if not server.is_alive():
        server.start()
    flush(server.url)
    return server


@pytest.fixture
def gateway(process: GatewayProcess) -> str:
    return process.url


@pytest.fixture
async def frail_desk(frail: OwnStore) -> AsyncIterator[Desk]:
    async with Store(frail.url) as store:
        yield Desk(store, "research")


async def test_without_a_store_requests_are_told_when_to_come_back(frail: OwnStore, gateway: str) -> None:
    frail.kill()
    async with httpx2.AsyncClient(base_url=gateway, timeout=20, verify=False) as http:
        answers = [
            await http.post("/research/start", json={"query": "x"}),
            await http.post("/api/jobs/bulk", json={"jobs": [{"platform": "research", "kind": "drill"}]}),
            await http.post("/api/jobs/research.a/cancel"),
            await http.get("/api/jobs/research.a"),
            await http.get("/research/history/research.a"),
            await http.get("/api/v2/jobs/running"),
            await http.get("/readyz"),
        ]
        for answer in answers:
            problem_of(answer, 503, "STORE_AWAY")
            assert int(answer.headers["retry-after"]) > 0
        problem_of(await http.post("/research/start", json={"query": 1}), 422, "WRONG_FIELD")
        assert (await http.get("/healthz")).status_code == 200
        frail.start()
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.post("/research/start", json={"query": "x"})).status_code == 202


async def test_without_a_store_a_stream_says_so_and_has_its_client_come_back(frail: OwnStore, gateway: str) -> None:
    """Anything but 200 would end a browser's EventSource for good."""
    frail.kill()
    sources = [EventSource(gateway, "research.a"), EventSource(gateway, "research.a"), all_jobs(gateway)]
    for each, last_id in zip(sources, (None, "3-1700000000000000", None), strict=True):
        async with each as source, source.open(last_id) as reading:
            assert reading.response.status_code == 200
            assert reading.response.headers["content-type"].startswith("text/event-stream")
            assert await reading.rest() == []
            assert reading.comments == ["the store does not answer; come back"]
            assert reading.retry


async def test_a_stream_outlives_its_store(frail: OwnStore, gateway: str, frail_desk: Desk) -> None:
    desk = frail_desk
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        assert told(await reading.take(2)) == ["queued", "started 1"]
        await desk.report(held, 1)
        assert told(await reading.take(1)) == ["progress 1 1"]
        frail.kill()
        await asyncio.sleep(0.5)  # the gateway finds nobody at home a few times
        frail.start()
        await desk.report(held, 2)
        assert told(await reading.take(1)) == ["progress 1 2"]
        await desk.complete(held)
        assert told(await reading.rest()) == ["completed 1", "end"]


async def test_a_stream_of_all_jobs_is_told_once_that_it_missed_something(
    frail: OwnStore, gateway: str, frail_desk: Desk
) -> None:
    async with all_jobs(gateway) as source, source.open() as reading:
        await frail_desk.start("a")
        assert (await reading.take(1))[0].told.status == "started"
        frail.kill()
        await asyncio.sleep(1)  # the gateway finds nobody at home a few times
        frail.start()
        assert (await reading.take(1))[0].event == "reset"
        await frail_desk.start("b")
        assert (await reading.take(1))[0].told.jobId == "research.b"


async def test_what_happened_while_the_gateway_was_cut_off_is_told_afterwards(
    frail: OwnStore, gateway: str, frail_desk: Desk
) -> None:
    desk = frail_desk
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        await desk.report(held, 1)
        await reading.take(1)
        own = await desk.store.command("CLIENT", "ID")
        for number in range(2, 8):
            await desk.store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await desk.report(held, number)
        assert await desk.store.command("CLIENT", "ID") == own, "only the gateway's connections were cut"
        await desk.complete(held)
        steps = [f"progress 1 {number}" for number in range(2, 8)]
        assert told(await reading.rest()) == [*steps, "completed 1", "end"]


async def test_a_store_that_lost_the_newest_events_resets_the_client(
    frail: OwnStore, gateway: str, frail_desk: Desk
) -> None:
    desk = frail_desk
    held = await desk.start("a")
    await desk.report(held, 1)
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        assert len(await reading.take(3)) == 3
        await desk.store.command("RPOP", desk.keys.log("a"))
        await desk.set_back(held, 1, 2)
        frail.kill()
        frail.start()
        assert told(await reading.take(3)) == ["reset", "queued", "started 1"]
        await desk.complete(held)
        assert told(await reading.rest()) == ["completed 1", "end"]


async def test_a_store_that_hangs_is_away(frail: OwnStore, gateway: str) -> None:
    async with httpx2.AsyncClient(base_url=gateway, timeout=20, verify=False) as http:
        assert (await http.get("/readyz")).status_code == 200
        os.kill(frail.pid, signal.SIGSTOP)
        try:
            refused, stream = await asyncio.gather(
                http.post("/research/start", json={"query": "x"}), http.get("/research/stream/research.a")
            )
            problem_of(refused, 503, "STORE_AWAY")
            assert stream.status_code == 200, "anything else would end a browser's EventSource for good"
            assert "retry: " in stream.text
            async with http.stream("GET", "/api/events") as many:
                assert many.status_code == 200
                assert "retry: " in await anext(many.aiter_text())
        finally:
            os.kill(frail.pid, signal.SIGCONT)


async def test_a_feed_cut_short_behind_the_gateways_back_costs_nothing(
    process: GatewayProcess, gateway: str, frail_desk: Desk
) -> None:
    """The gateway stands still while the capped feed moves on: a read from a place that is gone skips in silence."""
    desk = frail_desk
    held = await desk.start("a")
    other = await desk.start("other")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        await desk.report(held, 1)
        await reading.take(1)
        os.kill(process.process.pid, signal.SIGSTOP)
        try:
            await desk.report(other, 1)  # answers the read that is under way; the next one comes too late
            await desk.report(held, 2)
            await desk.store.command("XTRIM", desk.keys["events"], "MAXLEN", 0)
            for start in range(2, 10_002, 500):  # nothing of `a`: only a look at the feed's oldest entry can tell
                batch = [desk.reporting(other, number) for number in range(start, start + 500)]
                await desk.transitions.commit(desk.keys, batch)
        finally:
            os.kill(process.process.pid, signal.SIGCONT)
        assert told(await reading.take(1)) == ["progress 1 2"]


async def test_whatever_the_store_goes_through_no_stream_is_refused(
    frail: OwnStore, gateway: str, frail_desk: Desk
) -> None:
    await frail_desk.start("a")
    answers: list[tuple[int, str]] = []
    over = asyncio.Event()

    async def come_again(path: str) -> None:
        async with httpx2.AsyncClient(base_url=gateway, timeout=20, verify=False) as http:
            while not over.is_set():
                async with http.stream("GET", path) as response:
                    words = response.aiter_text()
                    answers.append((response.status_code, await anext(words)))

    async def answered(what: str, tells: Callable[[str], bool]) -> None:
        """Wait until three requests from now on are answered so."""
        before = len(answers)

        async def look() -> bool:
            return sum(tells(words) for _, words in answers[before:]) >= 3

        await eventually(f"answers tell that {what}", look)

    async with asyncio.TaskGroup() as tasks:
        for path in ("/research/stream/research.a", "/api/events") * 3:
            tasks.create_task(come_again(path))
        for _ in range(3):
            frail.kill()
            await answered("there is no store", lambda words: "come back" in words)
            frail.start()
            await answered("there is a store", lambda words: "come back" not in words)
        await frail_desk.store.command("CONFIG", "SET", "maxclients", 1)  # connections that are open stay so
        await frail_desk.store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await answered("the store takes no connection", lambda words: "come back" in words)
        await frail_desk.store.command("CONFIG", "SET", "maxclients", 1000)
        over.set()
    assert {status for status, _ in answers} == {200}
    assert all("retry: " in words for _, words in answers)
    assert len(answers) > 20
