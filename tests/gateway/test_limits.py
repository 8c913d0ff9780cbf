"""Limits: who asks too often, holds too many streams, or sends and reads too slowly."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tailrace.gateway.access.limits import BURST_SECONDS, Caps
from tests.gateway.gateways import GatewayProcess, gateway_thread
from tests.gateway.keyrings import OLD, SETTING, WHOLE, shown
from tests.gateway.raw import Socket, open_socket
from tests.support.builders import Desk
from tests.support.eventually import eventually

SMALL = {
    "TAILRACE_API_KEYS": SETTING,
    "TAILRACE_MAX_STREAMS": "3",
    "TAILRACE_KEY_STREAMS": "2",
    "TAILRACE_KEY_REQUESTS": "3",
    "TAILRACE_KEY_RATE": "20",
}


@pytest.fixture
def small(valkey_url: str, untroubled: None) -> Iterator[str]:
    """A gateway that allows hardly anything."""
    with gateway_thread(valkey_url, SMALL) as gateway:
        yield gateway.url


@asynccontextmanager
async def client(url: str, secret: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    headers = shown(secret) if secret else {}
    async with httpx2.AsyncClient(base_url=url, timeout=20, verify=False, headers=headers) as http:
        yield http


def too_many(answer: httpx2.Response) -> str:
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["code"])


async def test_a_key_asks_so_often_and_no_more(valkey_url: str, untroubled: None) -> None:
    rate = 4  # so few that any machine asks more often
    with gateway_thread(valkey_url, {**SMALL, "TAILRACE_KEY_RATE": str(rate)}) as gateway:
        async with client(gateway.url, WHOLE) as http, client(gateway.url, OLD) as other:
            began, answered = time.monotonic(), 0
            while (answer := await http.get("/api/session")).status_code == 200:
                answered += 1
            saved_up = BURST_SECONDS * rate
            assert saved_up <= answered <= saved_up + (time.monotonic() - began) * rate
            assert too_many(answer) == "RATE_EXCEEDED"
            assert (await other.get("/api/session")).status_code == 200, "another key is another matter"
            assert (await other.get("/healthz")).status_code == 200

            async def again() -> bool:
                return (await http.get("/api/session")).status_code == 200

            await eventually("it may ask again", again)


async def test_streams_are_counted_by_key_and_in_all(small: str, desk: Desk) -> None:
    await desk.submit("a")
    path = "/research/stream/research.a"
    async with client(small, WHOLE) as http, client(small, OLD) as other:
        async with http.stream("GET", path) as one, http.stream("GET", path) as two:
            assert (one.status_code, two.status_code) == (200, 200)
            assert too_many(await http.get(path)) == "TOO_MANY_STREAMS"
            assert too_many(await http.get("/api/events")) == "TOO_MANY_STREAMS"
            assert (await http.get("/api/jobs/research.a")).status_code == 200
            async with other.stream("GET", "/api/events") as three:
                assert three.status_code == 200
                assert too_many(await other.get(path)) == "TOO_MANY_STREAMS", "all that there may be"

        async def free() -> bool:
            async with http.stream("GET", path) as again:
                return again.status_code == 200

        await eventually("a stream that ended makes room", free)


async def test_a_ticket_counts_for_the_key_that_paid(small: str, desk: Desk) -> None:
    await desk.submit("a")
    path = "/research/stream/research.a"
    async with client(small, WHOLE) as http, client(small) as nobody:

        async def ticket() -> str:
            answer = await http.post("/api/tickets", json={"jobId": "research.a"})
            return f"{path}?ticket={answer.json()['ticket']}"

        async with nobody.stream("GET", await ticket()) as one, http.stream("GET", path) as two:
            assert (one.status_code, two.status_code) == (200, 200)
            assert too_many(await nobody.get(await ticket())) == "TOO_MANY_STREAMS"


async def test_requests_under_way_are_counted_by_key(small: str) -> None:
    async with client(small, WHOLE) as http, client(small, OLD) as other:
        hold = [asyncio.create_task(http.post("/api/jobs", content=never())) for _ in range(3)]
        try:

            async def full() -> bool:
                answer = await http.get("/api/session")
                return answer.status_code == 429 and too_many(answer) == "TOO_MANY_REQUESTS"

            await eventually("the key has all it may have", full)
            assert (await other.get("/api/session")).status_code == 200
        finally:
            for each in hold:
                each.cancel()
            await asyncio.gather(*hold, return_exceptions=True)


async def never() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


@pytest.mark.usefixtures("untroubled")
async def test_one_connection_too_many_is_told_so(valkey_url: str) -> None:
    with gateway_thread(valkey_url, {"TAILRACE_MAX_CONNECTIONS": "5"}) as gateway:
        sockets = [await open_socket(gateway.url) for _ in range(5)]
        async with client(gateway.url) as http:
            answer = await http.get("/api/platforms")
            assert too_many(answer) == "TOO_MANY_CONNECTIONS"
            assert answer.headers["connection"] == "close"
            assert (await http.get("/healthz")).status_code == 200, "who looks whether we live learns that we do"
            more = [await open_socket(gateway.url) for _ in range(10)]
            assert await ended(more[-1], 5), "far too many are not even told"
            for each in sockets + more:
                each[1].close()

            async def free() -> bool:
                return (await http.get("/api/platforms")).status_code == 200

            await eventually("there is room again", free)


# Time


HEAD = b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SLOW = {
    "nothing at all": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    "half a second head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nX-Slow: ",
    "half a body": HEAD + b"Content-Length: 100000\r\n\r\n{",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5000\r\n{",
    "the body of a request that was answered": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
}


async def ended(socket: Socket, seconds: float) -> bool:
    with suppress(ConnectionError):
        try:
            await asyncio.wait_for(socket[0].read(), seconds)
        except TimeoutError:
            return False
    return True


async def drip(socket: Socket, seconds: float, pause: float) -> float:
    """Send a byte now and then until the gateway hangs up; after how long that was."""
    began = time.monotonic()
    reading = asyncio.create_task(ended(socket, seconds))
    while not reading.done():
        with suppress(ConnectionError):
            socket[1].write(b"x")
        await asyncio.wait([reading], timeout=pause)
    socket[1].close()
    assert reading.result(), "it is still open"
    return time.monotonic() - began


async def test_who_sends_too_slowly_is_let_go(valkey_url: str) -> None:
    with gateway_thread(valkey_url, caps=Caps(send_seconds=1.5)) as gateway:

        async def endured(opening: bytes) -> float:
            socket = await open_socket(gateway.url, opening)
            return await (drip(socket, 20, 0.2) if opening else silent(socket))

        took = dict(zip(SLOW, await asyncio.gather(*map(endured, SLOW.values())), strict=True))
    assert {name: seconds for name, seconds in took.items() if seconds < 1.4} == {}


async def silent(socket: Socket) -> float:
    began = time.monotonic()
    assert await ended(socket, 20)
    socket[1].close()
    return time.monotonic() - began


async def test_who_is_let_go_is_told_why(valkey_url: str) -> None:
    with gateway_thread(valkey_url, caps=Caps(send_seconds=1.0)) as gateway:
        slow = [await open_socket(gateway.url, SLOW[name]) for name in ("half a head", "half a body")]
        for reader, writer in slow:
            answer = await asyncio.wait_for(reader.read(), 20)
            assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert b'"TOO_SLOW"' in answer
            assert b"nosniff" in answer
            writer.close()


async def test_who_sends_slowly_but_steadily_is_served(valkey_url: str) -> None:
    body = b'{"platform": "research", "kind": "drill", "args": {"text": "%b"}}' % (b"x" * 60_000)
    with gateway_thread(valkey_url, caps=Caps(send_seconds=1.5)) as gateway:
        reader, writer = await open_socket(gateway.url, HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
        began = time.monotonic()
        for place in range(0, len(body), 6_000):
            writer.write(body[place : place + 6_000])
            await asyncio.sleep(0.25)  # the pace itself is what is tested
        assert time.monotonic() - began > 2
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 202 ")
        writer.close()


async def test_a_quiet_stream_is_not_a_slow_client(valkey_url: str, desk: Desk) -> None:
    await desk.submit("a")
    with gateway_thread(valkey_url, caps=Caps(send_seconds=0.25, read_seconds=0.25)) as gateway:
        request = b"GET /research/stream/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
        socket = await open_socket(gateway.url, request)
        assert (await socket[0].readline()).startswith(b"HTTP/1.1 200 ")
        assert not await ended(socket, 1.5), "it waits for events, not we for it"
        socket[1].close()


@pytest.mark.parametrize("request_times", [1, 20], ids=["one", "many at once"])
async def test_who_never_reads_an_answer_is_let_go(valkey_url: str, desk: Desk, request_times: int) -> None:
    await desk.complete(await desk.start("a"), "x" * 20_000_000)
    with gateway_thread(valkey_url, caps=Caps(read_seconds=1.0)) as gateway:
        address = urlsplit(gateway.url)
        request = b"GET /research/history/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
        _, writer = await asyncio.open_connection(address.hostname, address.port, limit=1024)
        writer.write(request * request_times)

        def held() -> bool:
            mine = writer.get_extra_info("sockname")[1]
            links = psutil.Process().net_connections("tcp")
            return any(link.raddr and link.raddr[1] == mine for link in links)

        async def answering() -> bool:
            return held()

        async def gone() -> bool:
            return not held()

        await eventually("the gateway answers", answering)
        await eventually("the gateway has let go", gone, seconds=20)
        writer.close()


async def loris(url: str, count: int, seconds: float) -> tuple[float, list[float]]:
    """Many sockets that drip, and what a healthy client meets meanwhile: the last end, and each time of an answer."""
    openings = [opening for opening in SLOW.values() if opening]
    sockets = [await open_socket(url, openings[number % len(openings)]) for number in range(count)]
    dripping = [asyncio.create_task(drip(socket, seconds, 1.0)) for socket in sockets]
    healthy = []
    async with client(url) as http:
        while not all(each.done() for each in dripping):
            began = time.monotonic()
            assert (await http.get("/healthz")).status_code == 200
            healthy.append(time.monotonic() - began)
            await asyncio.sleep(0.02)
    return max(await asyncio.gather(*dripping)), sorted(healthy)


async def test_many_who_drip_do_not_harm_the_others(valkey_url: str) -> None:
    with gateway_thread(valkey_url, caps=Caps(send_seconds=2.0)) as gateway:
        _, healthy = await loris(gateway.url, 100, 40)
        assert len(healthy) > 10, "they were answered meanwhile"


@pytest.mark.chaos
@pytest.mark.timeout(120)
async def test_three_hundred_who_drip_are_gone_in_half_a_minute(valkey_url: str) -> None:
    with GatewayProcess(valkey_url) as process:
        last, healthy = await loris(process.url, 300, 60)
        assert last <= 30
        assert healthy[int(len(healthy) * 0.99)] < 1.0


def half_sent(body: int) -> bytes:
    """A request whose body never comes to its end."""
    head = f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {body + 1}"
    return head.encode() + b"\r\n\r\n" + b" " * body


async def leave(writer: asyncio.StreamWriter, answer: asyncio.Task[bytes]) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    with suppress(OSError):
        await answer


async def test_the_bodies_of_all_requests_under_way_are_bounded(valkey_url: str, untroubled: None) -> None:
    with gateway_thread(valkey_url, {"TAILRACE_MAX_BODY_BYTES": "1048576"}) as gateway:
        async with client(gateway.url) as http:
            body = {"platform": "research", "kind": "drill", "args": {"text": "x" * 1000}, "id": "a"}
            held: dict[asyncio.StreamWriter, asyncio.Task[bytes]] = {}

            async def asked() -> int:
                answer = await http.post("/api/jobs", json=body)
                if answer.status_code == 503:
                    assert answer.json()["code"] == "TOO_MANY_BYTES"
                    assert answer.headers["retry-after"] == "1"
                return answer.status_code

            async def is_full() -> bool:
                # A question that is under way while a body still arrives takes its room: that body is refused, and
                # another one is sent.
                for writer in [each for each, answer in held.items() if answer.done()]:
                    await leave(writer, held.pop(writer))
                while len(held) < 2:
                    reader, writer = await asyncio.open_connection(*urlsplit(gateway.url).netloc.split(":"))
                    held[writer] = asyncio.create_task(reader.read())
                    writer.write(half_sent(524_000))
                    await writer.drain()
                return await asked() == 503

            async def has_room() -> bool:
                return await asked() == 202

            await eventually("what was sent is held", is_full)
            await leave(*held.popitem())
            await eventually("what a client that left had sent is let go", has_room)
            large = {**body, "id": "b", "args": {"result": "x" * 500_000}}
            for _ in range(3):
                assert (await http.post("/api/jobs", json=large)).status_code == 202, (
                    "an answered request holds nothing"
                )
            await leave(*held.popitem())
