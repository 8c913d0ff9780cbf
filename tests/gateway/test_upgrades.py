"""Requests that offer another protocol: the gateway goes on in HTTP/1.1 and reads every byte as what it is.

curl --http2 and Java's HttpClient offer h2c with each request; nginx passes such offers on when it is set up for
WebSockets. A server that stops parsing at the head loses the body, and `drop` without a filter drops all.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from tailrace.gateway.access.limits import HELD, Budget, HeldBytes
from tailrace.gateway.bodies import read_body
from tailrace.gateway.problems import Code, Refusal
from tailrace.gateway.routes.failed_jobs import SweepBody
from tests.gateway.raw import answer_to
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.nginx import AROUND, running
from tests.support.ports import free_port

FILTER = b'{"kind":"other"}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
DROP = b"POST /api/platforms/research/drop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + OFFER
CLOSING = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

WEBSOCKET_LINES = """
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://{gateway};
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
        }}
    }}
"""


@pytest.fixture
async def dead(desk: Desk) -> list[str]:
    """Failed jobs that no filter in here matches."""
    keys = ["a", "b"]
    for key in keys:
        await desk.fail(await desk.start(key))
    return keys


async def left(desk: Desk) -> int:
    return int(await desk.store.command("ZCARD", desk.keys["ended_failed"]))


async def in_packets(gateway: str, *packets: bytes) -> bytes:
    """All that comes back to these packets until the gateway hangs up."""
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for packet in packets:
        writer.write(packet)
        await writer.drain()
        await asyncio.sleep(0.05)  # so that it is a packet of its own
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)]


def framed(*, chunked: bool) -> tuple[bytes, bytes]:
    """The rest of a head, and the body."""
    if chunked:
        return b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(FILTER), FILTER)
    return b"Content-Length: %d\r\n\r\n" % len(FILTER), FILTER


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("cut", ["together", "apart", "in the head", "in the body"])
async def test_a_filter_beside_an_offered_upgrade_is_read(
    gateway: str, desk: Desk, dead: list[str], chunked: bool, cut: str
) -> None:
    rest, body = framed(chunked=chunked)
    whole = DROP + rest + body + CLOSING
    place = {
        "together": 0,
        "apart": len(DROP + rest),
        "in the head": len(DROP) - 9,
        "in the body": len(DROP + rest) + 3,
    }
    answer = await in_packets(gateway, *(part for part in (whole[: place[cut]], whole[place[cut] :]) if part))
    assert statuses(answer) == [200, 200], answer
    assert b'{"dropped":0,"left":0}' in answer
    assert answer.endswith(b'{"status":"ok"}')
    assert await left(desk) == len(dead)


async def test_a_body_beside_an_offered_upgrade_is_not_the_next_request(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    inner = b"GET /research/history/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /research/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + OFFER
    head += b"Content-Length: %d\r\n\r\n" % len(inner)
    for packets in ((head, inner, CLOSING), (head + inner, CLOSING), (head + inner + CLOSING,)):
        answer = await in_packets(gateway, *packets)
        assert statuses(answer) == [400, 200], answer
        assert b"queued" not in answer


async def test_many_offers_in_one_packet_are_answered_in_order(gateway: str, desk: Desk, dead: list[str]) -> None:
    rest, body = framed(chunked=False)
    look = b"GET /api/jobs/research.a HTTP/1.1\r\nHost: x\r\n" + OFFER + b"\r\n"
    answer = await answer_to(gateway, (DROP + rest + body + look) * 3 + CLOSING)
    assert statuses(answer) == [200] * 7
    assert re.findall(rb'"dropped":0|"jobId":"research.a"|"ok"', answer) == [
        *[b'"dropped":0', b'"jobId":"research.a"'] * 3,
        b'"ok"',
    ]
    assert await left(desk) == len(dead)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c", b"TLS/1.2", b"rubbish"])
async def test_an_upgrade_without_a_body_is_answered_in_http(gateway: str, protocol: bytes) -> None:
    offer = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: %b\r\n\r\n" % protocol
    answer = await answer_to(gateway, offer + CLOSING)
    assert statuses(answer) == [200, 200]


async def test_what_follows_connect_is_not_a_request(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    inner = b"GET /research/history/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nContent-Length: %d\r\n\r\n" % len(inner)
    for packets in ((head + inner,), (head, inner)):
        answer = await in_packets(gateway, *packets)
        (status,) = statuses(answer)
        assert 400 <= status < 500
        assert b"queued" not in answer


async def test_http2_without_an_upgrade_is_refused(gateway: str) -> None:
    answer = await answer_to(gateway, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    assert statuses(answer) == [400]


@pytest.mark.parametrize(
    "more",
    [b"Expect: 100-continue\r\n", b"Expect: 100-continue\r\n" + OFFER, b""],
    ids=["waits to be asked", "waits to be asked and offers an upgrade", "plain"],
)
async def test_a_filter_that_comes_on_request_is_read(gateway: str, desk: Desk, dead: list[str], more: bytes) -> None:
    rest, body = framed(chunked=False)
    head = b"POST http://x/api/platforms/research/drop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    answer = await in_packets(gateway, head + more + rest, body, CLOSING)
    assert statuses(answer) == [100] * (b"Expect" in more) + [200, 200], answer
    assert b'"dropped":0' in answer
    assert await left(desk) == len(dead)


async def test_an_old_client_that_offers_an_upgrade_is_served(gateway: str, desk: Desk, dead: list[str]) -> None:
    rest, body = framed(chunked=False)
    answer = await answer_to(gateway, DROP.replace(b"HTTP/1.1", b"HTTP/1.0") + rest + body)
    assert statuses(answer) == [200]
    assert b'"dropped":0' in answer
    assert await left(desk) == len(dead)


async def curl(url: str, *more: str) -> str:
    """What curl prints that offers HTTP/2 and sends the filter."""
    asked = ["-sS", "--http2", "-H", "Content-Type: application/json", "-d", FILTER.decode(), *more]
    done = await asyncio.to_thread(
        subprocess.run,
        ["curl", *asked, f"{url}/api/platforms/research/drop"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_curl_that_offers_http2_drops_what_its_filter_names(
    gateway: str, desk: Desk, dead: list[str], leave_out: Callable[[str], NoReturn]
) -> None:
    if shutil.which("curl") is None:
        leave_out("there is no curl on this machine")
    assert await curl(gateway) == '{"dropped":0,"left":0}'
    assert await curl(gateway, "-H", "Transfer-Encoding: chunked") == '{"dropped":0,"left":0}'
    assert await left(desk) == len(dead)


@pytest.fixture
async def proxied(gateway: str, tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> AsyncIterator[str]:
    """The gateway behind an nginx that is set up for WebSockets, as most guides have it."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if program is None or shutil.which("curl") is None:
        leave_out("there is no nginx or no curl on this machine")
    port = free_port()
    lines = WEBSOCKET_LINES.format(port=port, gateway=urlsplit(gateway).netloc)
    (tmp_path / "nginx.conf").write_text(AROUND.format(lines))
    with running([program, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"]):
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient() as http:

            async def ready() -> bool:
                try:
                    return (await http.get(f"{url}/healthz")).status_code == 200
                except httpx2.TransportError:
                    return False

            await eventually("nginx answers", ready)
        yield url


async def test_behind_an_nginx_set_up_for_websockets_a_filter_is_read(
    proxied: str, desk: Desk, dead: list[str]
) -> None:
    assert await curl(proxied) == '{"dropped":0,"left":0}'
    assert await left(desk) == len(dead)


@pytest.mark.parametrize("announced", ["16", "1"])
async def test_a_body_that_was_announced_and_did_not_come_does_not_mean_all(announced: str) -> None:
    """Should a server or a proxy lose it again: an empty body has no filter, and would act on everything."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"content-type", b"application/json"), (b"content-length", announced.encode())]
    held = HeldBytes(Budget(Response(), 1000))
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers, HELD: held}, receive)
    with pytest.raises(Refusal) as refused:
        await read_body(request, SweepBody)
    assert refused.value.code is Code.MALFORMED
