"""Streams: the history live, resumed exactly, reset openly, ended once."""

import asyncio
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
import pytest

from tailrace.gateway.live import feed
from tailrace.gateway.live.live import Live
from tailrace.streams.history.events import event_body
from tailrace.streams.store.connection import Store
from tests.gateway.event_source import EventSource, Message, told
from tests.gateway.gateways import gateway_thread
from tests.gateway.histories import END, forged, forgeries, history_of, race, story
from tests.gateway.watchers import empty
from tests.support.builders import Desk
from tests.support.eventually import eventually


async def test_a_stream_tells_the_past_then_the_present_then_the_end(
    http: httpx2.AsyncClient, gateway: str, desk: Desk
) -> None:
    end = await race(desk, "streamed")
    async with EventSource(gateway, "research.streamed") as source, source.open() as reading:
        headers = reading.response.headers
        assert reading.response.status_code == 200
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-store"
        assert headers["x-accel-buffering"] == "no"
        past = await reading.take(7)
        await end()
        present = await reading.rest()
    assert told(past + present) == [*END, "end"]
    assert present[-1] == Message("end", None, "{}")
    assert reading.retry
    messages = (past + present)[:-1]
    assert all(message.id == message.told.id for message in messages)
    history = await http.get("/research/history/research.streamed")
    assert f"[{','.join(message.data for message in messages)}]" == history.text, "the same bytes"


async def test_news_are_pushed_and_not_found_by_looking_again(
    valkey_url: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BLOCK_SECONDS", 600.0)  # a read of the feed that finds nothing ends after this test
    held = await desk.start("a")
    with gateway_thread(valkey_url, ping_seconds=600) as server:  # and so does the look at logs, as often as a ping
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await reading.take(2)
            for number in range(1, 6):
                await desk.report(held, number)
                (message,) = await asyncio.wait_for(reading.take(1), 20)
                assert message.told.step == number


async def test_a_waiting_job_is_streamed_from_its_place_in_line(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        assert told(await reading.take(1)) == ["queued"]
        await desk.cancel("a")
        assert told(await reading.rest()) == ["cancelled", "end"]


async def test_events_too_large_for_the_feed_are_streamed_too(gateway: str, desk: Desk) -> None:
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        for number in range(1, 4):
            event = event_body(1, "progress", "ann", number, data="x" * 200_000)
            await desk.transitions.report(desk.keys, "a", held.nonce, number, event)
        await desk.complete(held)
        rest = await reading.rest()
    assert told(rest) == ["progress 1 1", "progress 1 2", "progress 1 3", "completed 1", "end"]
    assert len(rest[0].told.data) == 200_000


async def test_a_thousand_events_in_a_burst_arrive_whole(gateway: str, desk: Desk) -> None:
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        for start in range(1, 1001, 100):
            await desk.transitions.commit(desk.keys, [desk.reporting(held, n) for n in range(start, start + 100)])
        await desk.complete(held)
        assert [m.told.step for m in (await reading.rest())[:-2]] == list(range(1, 1001))


@pytest.mark.parametrize("in_query", [False, True], ids=["header", "query"])
async def test_a_client_resumes_after_the_last_id_it_saw(
    http: httpx2.AsyncClient, gateway: str, desk: Desk, in_query: bool
) -> None:
    end = await race(desk)
    ids = [event["id"] for event in await history_of(http)]
    for seen, last_id in enumerate(ids, 1):
        async with EventSource(gateway, "research.a") as source, source.open(last_id, in_query=in_query) as reading:
            if seen < len(ids):
                assert told(await reading.take(1)) == [END[seen]]
            else:
                await end()
                assert told(await reading.rest()) == [*END[seen:], "end"]


async def test_the_header_goes_before_the_query(http: httpx2.AsyncClient, gateway: str, desk: Desk) -> None:
    await race(desk)
    ids = [event["id"] for event in await history_of(http)]
    async with http.stream(
        "GET", "/research/stream/research.a", headers={"Last-Event-ID": ids[2]}, params={"lastEventId": ids[0]}
    ) as response:
        async for line in response.aiter_lines():
            if line.startswith("id:"):
                assert line == f"id: {ids[3]}"
                break


UNKNOWN = {
    "future": "99-1700000000000000",
    "past": "1-1",
    "a right number with another time": "2-1700000000000000",
    "no id": "x",
    "empty parts": "-",
    "negative": "-1--1",
    "over-long": "1" * 5000,
    "over-long number": "9" * 4000 + "-1",
    "other digits": "٢-٢",
    "an injection": "1-1%0a%0aevent: x",
}


@pytest.mark.parametrize("last_id", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
async def test_an_id_that_is_not_of_this_history_resets_the_client(
    gateway: str, desk: Desk, last_id: str, ended: bool
) -> None:
    end = await race(desk)
    if ended:
        await end()
    for in_query in (True, False):
        if not last_id.isascii() and not in_query:
            continue  # no client can send it
        async with EventSource(gateway, "research.a") as source, source.open(last_id, in_query=in_query) as reading:
            if not ended and not in_query:
                await end()
            messages = await reading.take(8) if not ended and in_query else await reading.rest()
            assert messages[0] == Message("reset", None, "{}")
            assert told(messages)[1:8] == END[:7]


async def test_the_id_of_another_job_resets_the_client(http: httpx2.AsyncClient, gateway: str, desk: Desk) -> None:
    await desk.submit("a", "b")  # in the same millisecond
    other = (await http.get("/research/history/research.b")).json()[0]["id"]
    async with EventSource(gateway, "research.a") as source, source.open(other) as reading:
        assert told(await reading.take(2)) == ["reset", "queued"]


async def test_an_id_that_another_gateway_told_first_is_no_reason_for_a_reset(
    gateway: str, desk: Desk, store: Store
) -> None:
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        # In the log, but not yet in the feed of this gateway, which holds the job's channel already.
        await desk.keep_start(held)
        await store.command("RPUSH", desk.keys.log("a"), forged("a", 3, 1, "progress", 1))
        await desk.set_back(held, 1, 3)
        async with EventSource(gateway, "research.a") as other, other.open("3-1700000000000000") as resumed:
            await desk.report(held, 2)
            assert told(await resumed.take(1)) == ["progress 1 2"]
        assert told(await reading.take(2)) == ["progress 1 1", "progress 1 2"]


async def test_an_empty_last_id_is_none(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    for in_query in (False, True):
        async with EventSource(gateway, "research.a") as source, source.open("", in_query=in_query) as reading:
            assert told(await reading.take(1)) == ["queued"]


async def test_who_has_seen_the_end_is_told_not_to_come_back(
    http: httpx2.AsyncClient, gateway: str, desk: Desk
) -> None:
    await (await race(desk, "seen"))()
    events = await history_of(http, "seen")
    for params in ({"headers": {"Last-Event-ID": events[-1]["id"]}}, {"params": {"lastEventId": events[-1]["id"]}}):
        answer = await http.get("/research/stream/research.seen", **params)  # type: ignore[arg-type]
        assert (answer.status_code, answer.content) == (204, b"")
    async with EventSource(gateway, "research.seen") as source, source.open(events[-2]["id"]) as reading:
        assert told(await reading.rest()) == ["completed 2", "end"]


async def test_what_somebody_writes_into_log_and_feed_is_not_streamed(
    http: httpx2.AsyncClient, gateway: str, desk: Desk, store: Store
) -> None:
    end = await race(desk, "f")
    async with EventSource(gateway, "research.f") as source, source.open() as reading:
        past = await reading.take(7)
        for number, event in enumerate([*forgeries("f"), *await desk.log("f")]):
            await store.command("RPUSH", desk.keys.log("f"), event)
            for seq in (number, 8):  # an old number, and the very next one
                await store.command("XADD", desk.keys["events"], "*", f"f {seq}", event)
        for strange in ("f", "f x", "f 8 8", " 8", "\xff 8", "f 99999999999999999999", "f ²", "f " + "9" * 5000):
            await store.command("XADD", desk.keys["events"], "*", strange, b"rubbish")
        await end()
        assert told(past + await reading.rest()) == [*END, "end"]
    assert story(await history_of(http, "f")) == END


async def test_a_forged_event_that_got_through_is_taken_back_when_the_true_one_comes(
    gateway: str, desk: Desk, store: Store
) -> None:
    """The feed alone cannot tell a forgery that fits exactly; the log can."""
    end = await race(desk)
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(7)
        seen = asyncio.create_task(reading.take(1))
        while not seen.done():  # it is not believed while the log is being read
            await store.command("XADD", desk.keys["events"], "*", "a 8", forged("a", 8, 2, "progress", 77))
            await asyncio.wait([seen], timeout=0.05)
        assert told(seen.result()) == ["progress 2 77"]
        await end()
        assert told(await reading.rest()) == ["reset", *END, "end"]


async def test_a_history_that_was_set_back_resets_its_watchers(gateway: str, desk: Desk, store: Store) -> None:
    """As after a failover onto a replica that had not heard the newest events."""
    held = await desk.start("a")
    await desk.report(held, 1)
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(3)
        await store.command("RPOP", desk.keys.log("a"))
        await desk.set_back(held, 1, 2)
        await desk.report(held, 2, "other")
        assert told(await reading.take(4)) == ["reset", "queued", "started 1", "progress 1 other"]


async def test_a_job_that_is_gone_ends_its_streams(gateway: str, desk: Desk, store: Store) -> None:
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        await store.command("DEL", desk.keys.record("a"), desk.keys.log("a"))
        await store.command("XADD", desk.keys["events"], "*", "a 9", b"")
        assert told(await reading.rest()) == ["reset"]
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        assert reading.response.status_code == 404
    assert await desk.complete(held) == "lost"


async def test_a_damaged_job_does_not_hold_up_the_others(gateway: str, desk: Desk, store: Store) -> None:
    held = await desk.start("a")
    await desk.start("b")
    async with (
        EventSource(gateway, "research.a") as a,
        EventSource(gateway, "research.b") as b,
        a.open() as reading_a,
        b.open() as reading_b,
    ):
        await reading_a.take(2)
        await reading_b.take(2)
        await store.command("DEL", desk.keys.record("b"))
        await store.command("SET", desk.keys.record("b"), "x")
        await store.command("XADD", desk.keys["events"], "*", "b 9", b"", "a 9", b"")  # both have to be read again
        assert told(await reading_b.rest()) == ["reset"]
        await desk.complete(held)
        assert told(await reading_a.rest()) == ["completed 1", "end"]


async def test_many_clients_of_many_jobs_share_one_feed(gateway: str, desk: Desk, store: Store) -> None:
    keys = [f"k{number}" for number in range(10)]
    await desk.submit(*keys)
    held = await desk.claim(slots=10)

    async def watch(key: str) -> list[str]:
        async with EventSource(gateway, f"research.{key}") as source, source.open() as reading:
            await reading.take(2)
            watching.release()
            return told(await reading.rest())

    watching = asyncio.Semaphore(0)
    async with EventSource(gateway, "research.k0") as source, source.open() as first:
        await first.take(2)  # the feeds of the gateway are open from here on
        before = len((await store.command("CLIENT", "LIST")).splitlines())
        async with asyncio.TaskGroup() as tasks:
            watchers = [tasks.create_task(watch(key)) for key in keys for _ in range(10)]
            for _ in watchers:
                await watching.acquire()
            clients = len((await store.command("CLIENT", "LIST")).splitlines())
            for each in held:
                await desk.report(each, 1)
            await desk.transitions.commit(desk.keys, [desk.completing(each) for each in held])
    assert all(watcher.result() == ["progress 1 1", "completed 1", "end"] for watcher in watchers)
    assert clients - before <= 2, "no connection to the store per browser"


async def test_nothing_falls_between_the_log_and_the_feed(gateway: str, desk: Desk) -> None:
    """Streams opened at the very moment things happen, again and again."""
    for round_ in range(30):
        key = f"r{round_}"
        held = await desk.start(key)

        async def work(held: object = held) -> None:
            for number in range(1, 6):
                await desk.report(held, number)  # type: ignore[arg-type]
            await desk.complete(held)  # type: ignore[arg-type]

        async def watch(key: str = key) -> list[str]:
            async with EventSource(gateway, f"research.{key}") as source, source.open() as reading:
                return told(await reading.rest())

        _, *seen = await asyncio.wait_for(asyncio.gather(work(), *(watch() for _ in range(3))), 20)
        whole = ["queued", "started 1", *(f"progress 1 {n}" for n in range(1, 6)), "completed 1", "end"]
        assert seen == [whole] * 3


async def test_a_quiet_stream_is_pinged(valkey_url: str, desk: Desk) -> None:
    held = await desk.start("a")
    with gateway_thread(valkey_url, ping_seconds=0.1) as server:
        began = time.monotonic()
        async with EventSource(server.url, "research.a") as source, source.open() as reading:
            await reading.take(2)
            rest = asyncio.create_task(reading.rest())

            async def pinged() -> bool:
                return reading.comments.count("ping") >= 5

            await eventually("it is pinged five times", pinged)
            assert reading.comments.count("ping") <= (time.monotonic() - began) / 0.1 + 1, "no more often than said"
            await desk.complete(held)
            assert told(await rest) == ["completed 1", "end"]


async def test_a_client_that_does_not_read_is_cut_off_and_resumes(gateway: str, valkey_url: str, desk: Desk) -> None:
    held = await desk.start("a")
    for number in range(1, 101):
        event = event_body(1, "progress", "ann", number, data="x" * 100_000)
        await desk.transitions.report(desk.keys, "a", held.nonce, number, event)
    with gateway_thread(valkey_url, ping_seconds=0.3) as server:
        address = urlsplit(server.url)
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect((address.hostname, address.port))
            link.sendall(b"GET /research/stream/research.a HTTP/1.1\r\nHost: x\r\n\r\n")
            live: Live = server.app.state.live

            async def watched() -> bool:
                return live.count == 1

            await eventually("it is served", watched)
            await empty(live)  # not a byte is read, and yet the gateway gets rid of it
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        assert len(await reading.take(102)) == 102, "a client that reads gets all of it"


async def test_a_head_request_does_not_stream(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    answer = await http.head("/research/stream/research.a")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_every_platform_is_streamed(gateway: str, desk_on: Callable[[str], Desk]) -> None:
    desk = desk_on("oliveyoung")
    held = await desk.start("a")
    async with EventSource(gateway, "oliveyoung.a") as source, source.open() as reading:
        await reading.take(2)
        await desk.complete(held)
        assert told(await reading.rest()) == ["completed 1", "end"]


async def test_a_feed_that_somebody_broke_is_replaced_by_looking_at_the_logs(
    gateway: str, desk_on: Callable[[str], Desk], desk: Desk
) -> None:
    await desk.store.command("SET", desk_on("ably").keys["events"], "x")
    held = await desk.start("a")
    async with EventSource(gateway, "research.a") as source, source.open() as reading:
        await reading.take(2)
        await desk.complete(held)
        assert told(await reading.rest()) == ["completed 1", "end"]
