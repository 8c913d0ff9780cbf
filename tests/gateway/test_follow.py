"""A client that follows jobs over real gateways: whatever dies in between, each event once, in order, to the end."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tailrace.gateway import GatewayRefused, HistoryReset, NoSuchJob, follow
from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.client import follow as client
from tailrace.gateway.live.live import Live
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.history.events import event_body
from tailrace.streams.store.connection import Store
from tests.gateway import keyrings
from tests.gateway.gateways import GatewayProcess, gateway_thread
from tests.gateway.histories import END, history_of, race, story
from tests.gateway.watchers import empty
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.faults import Link
from tests.support.ports import free_port

Events = list[dict[str, Any]]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Come back sooner than one should, so that a test sees more of it."""
    monkeypatch.setattr(client, "LONGEST_PAUSE_SECONDS", 0.05)


async def gather(events: Events, job: str, url: str, **more: Any) -> Events:
    async for event in follow(job, url, **more):
        events.append(event)
    return events


@asynccontextmanager
async def following(job: str, url: str, **more: Any) -> AsyncIterator[tuple[Events, Callable[[], Awaitable[Events]]]]:
    """The events so far, and a way to wait for all of them."""
    events: Events = []
    task = asyncio.create_task(gather(events, job, url, **more))
    try:
        yield events, lambda: asyncio.wait_for(asyncio.shield(task), 40)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def count(events: Events, number: int) -> None:
    async def look() -> bool:
        return len(events) >= number

    await eventually(f"{number} events came", look)


class Balancer(Link):
    """A proxy in front of gateways: each connection goes to the next one."""

    def __init__(self, *gateways: str) -> None:
        super().__init__(gateways[0])
        self.joined = 0
        self._gateways = gateways

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = urlsplit(self._gateways[self.joined % len(self._gateways)])
        self.joined += 1
        await super()._join(reader, writer)

    @property
    def url(self) -> str:
        return super().url.replace("redis", "http")


async def test_a_job_is_followed_from_its_first_event_to_its_end(
    http: httpx2.AsyncClient, gateway: str, desk: Desk
) -> None:
    end = await race(desk, "followed")
    async with following("research.followed", gateway) as (events, all_of_it):
        await count(events, 7)
        await end()
        await all_of_it()
    assert story(events) == END
    assert events == await history_of(http, "followed"), "with every field"


async def test_it_goes_on_after_an_event_that_was_kept(gateway: str, desk: Desk) -> None:
    end = await race(desk, "kept")
    first = [event async for event in through(3, follow("research.kept", gateway))]
    await end()
    rest = await gather([], "research.kept", gateway, after=first[-1]["id"])
    assert story(first + rest) == END
    assert await gather([], "research.kept", gateway, after=rest[-1]["id"]) == []
    with pytest.raises(HistoryReset):
        await gather([], "research.kept", gateway, after="3-1700000000000000")


async def through(number: int, events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    async for event in events:
        yield event
        number -= 1
        if not number:
            return


async def test_a_job_that_is_not_there_is_said_so(gateway: str) -> None:
    with pytest.raises(NoSuchJob, match=r"research\.none"):
        await gather([], "research.none", gateway)


async def test_a_job_that_is_removed_meanwhile_is_said_so(gateway: str, desk: Desk, http: httpx2.AsyncClient) -> None:
    await desk.submit("removed")
    async with following("research.removed", gateway) as (events, all_of_it):
        await count(events, 1)
        await desk.store.command("FLUSHALL")
        await desk.store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # the gateway looks again
        with pytest.raises((NoSuchJob, HistoryReset)):
            await all_of_it()


async def test_a_key_is_shown_and_its_limits_are_told(
    one_locked_gateway: str, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    url = one_locked_gateway
    for each in (desk, desk_on("ably")):
        await each.complete(await each.start("guarded"))
    assert len(await gather([], "research.guarded", url, key=keyrings.WHOLE)) == 3
    assert len(await gather([], "ably.guarded", url, key=keyrings.VIEWER)) == 3
    with pytest.raises(NoSuchJob):
        await gather([], "research.guarded", url, key=keyrings.VIEWER)
    for key, status, code in (
        (None, 401, "UNAUTHORIZED"),
        (keyrings.UNKNOWN, 401, "UNAUTHORIZED"),
        (keyrings.OF_SCOPE[Scope.SUBMIT], 403, "SCOPE_MISSING"),
    ):
        with pytest.raises(GatewayRefused) as raised:
            await gather([], "research.guarded", url, key=key)
        assert (raised.value.status, raised.value.code) == (status, code)
        assert str(key) not in str(raised.value)


@pytest.mark.usefixtures("quick")
async def test_connections_that_break_again_and_again_between_two_gateways_cost_nothing(
    http: httpx2.AsyncClient, gateways: tuple[str, str], desk: Desk
) -> None:
    held = await desk.start("cut")
    async with Balancer(*gateways) as balancer, following("research.cut", balancer.url) as (events, all_of_it):
        for number in range(1, 91):
            await desk.report(held, number)
            if number % 3 == 0:
                await count(events, number + random.choice([-2, 0, 2]))  # in the middle of telling, or when all is told
                balancer.cut()
                await balancer.heal()
            if number % 30 == 0:
                await desk.release(held)
                (held,) = await desk.claim("bob")
        await desk.complete(held)
        await all_of_it()
        assert balancer.joined > 10
    assert events == await history_of(http, "cut")


async def test_a_half_open_connection_is_given_up_and_a_quiet_one_is_not(
    valkey_url: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SILENCE_SECONDS", 1.5)
    held = await desk.start("silent")
    with gateway_thread(valkey_url, ping_seconds=0.1) as server:
        async with Balancer(server.url) as link, following("research.silent", link.url) as (events, all_of_it):
            await count(events, 2)
            await asyncio.sleep(2.5)  # longer than silence may last; there are pings
            assert link.joined == 1
            link.swallow()
            await desk.report(held, 1)
            await desk.complete(held)
            await asyncio.sleep(0.2)  # what was told is lost on the way
            await link.heal()
            await all_of_it()
            assert link.joined == 2
    assert story(events) == ["queued", "started 1", "progress 1 1", "completed 1"]


async def test_a_caller_that_takes_its_time_is_cut_off_and_goes_on(valkey_url: str, desk: Desk) -> None:
    held = await desk.start("slow")
    for number in range(1, 101):
        large = event_body(1, "progress", "ann", number, data="x" * 64_000)
        await desk.transitions.report(desk.keys, "slow", held.nonce, number, large)
    await desk.complete(held)
    seen = []
    with gateway_thread(valkey_url, ping_seconds=0.1) as server:
        live: Live = server.app.state.live
        before = psutil.Process().memory_info().rss
        async for event in follow("research.slow", server.url):
            seen.append(event["seq"])
            if len(seen) == 10:
                await empty(live)  # the gateway has let go of us
                assert psutil.Process().memory_info().rss - before < 32 * 1024 * 1024
    assert seen == list(range(1, 104))


async def test_many_clients_leave_nothing_behind(valkey_url: str, desk: Desk) -> None:
    await desk.start("left")
    me = psutil.Process()
    with gateway_thread(valkey_url) as server:
        live: Live = server.app.state.live

        async def look() -> None:
            async for _ in follow("research.left", server.url):
                break

        await look()
        await empty(live)
        before = me.num_fds()
        for _ in range(10):
            await asyncio.gather(*(look() for _ in range(10)))
        await empty(live)

        async def closed() -> bool:
            return me.num_fds() <= before

        await eventually("every socket is closed", closed)


async def test_a_worker_and_a_gateway_are_killed_in_the_middle(deployment: Deployment) -> None:
    gateway, first = await asyncio.gather(deployment.gateway(), deployment.consumer("research"))
    job = await deployment.submit("research", steps=3, seconds=1, result={"sum": 42})
    async with following(job, gateway.url) as (events, all_of_it):
        await count(events, 3)
        first.kill_group()
        gateway.kill_group()
        await asyncio.gather(deployment.consumer("research"), deployment.gateway(again=gateway))
        await all_of_it()
    assert [event["attempt"] for event in events if event["status"] == "started"] == [1, 2]
    assert events[-1]["result"] == {"sum": 42}
    assert [event["id"] for event in events] == [event.id for event in await deployment.history(job)]


@pytest.mark.usefixtures("quick")
async def test_a_store_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with OwnStore(tmp_path / "frail", port=free_port()) as frail, GatewayProcess(frail.url) as gateway:
        async with Store(frail.url) as store:
            desk = Desk(store, "research")
            held, other = await desk.start("away"), await desk.start("other")
            await desk.report(held, 1)
            async with following("research.away", gateway.url) as (early, all_of_early):
                await count(early, 3)
                frail.kill()
                async with following("research.other", gateway.url) as (late, all_of_late):
                    await asyncio.sleep(0.5)  # it comes back a few times and finds no store
                    assert late == []
                    frail.start()
                    await desk.report(held, 2)
                    await desk.complete(held)
                    await desk.complete(other)
                    await all_of_early()
                    await all_of_late()
            assert story(late) == ["queued", "started 1", "completed 1"]
            assert story(early) == ["queued", "started 1", "progress 1 1", "progress 1 2", "completed 1"]


async def test_an_event_of_almost_a_megabyte_is_told_whole(gateway: str, desk: Desk) -> None:
    held = await desk.start("large")
    text = "é\u2028\n\0</script>" * 43_000
    event = event_body(1, "progress", "ann", 1, data=text)
    assert 900_000 < len(event) < 1024 * 1024, len(event)
    await desk.transitions.report(desk.keys, "large", held.nonce, 1, event)
    await desk.complete(held)
    events = await gather([], "research.large", gateway)
    assert events[2]["data"] == text
