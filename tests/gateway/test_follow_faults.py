"""A client that follows a job through every kind of other end: refusals, garbage, no server."""

import asyncio
import gzip
import logging
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import anyio
import pytest

from tailrace.gateway import (
    FollowError,
    GatewayAway,
    GatewayRefused,
    HistoryReset,
    NoSuchJob,
    NotAGateway,
    follow,
)
from tailrace.gateway.client import follow as client
from tests.gateway.scripted import HEAD, Scripted, refused, streamed
from tests.support.builders import forge
from tests.support.eventually import eventually

JOB = "research.a"
KEY = "a-key-that-nobody-sees"


def told(seq: int, status: str = "progress", **more: str) -> bytes:
    event = forge(JOB, seq, 1, status, **more)
    return b"id: %d-1\ndata: %b\n\n" % (seq, event)


def repr_of(value: object) -> str | None:
    """A short name for a case."""
    return repr(value[-20:]) if isinstance(value, bytes) else None


END = b"event: end\ndata: {}\n\n"
RESET = b"event: reset\ndata: {}\n\n"
GOOD = streamed(told(1), told(2), told(3, "completed"), END)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait no longer than a moment between tries."""
    monkeypatch.setattr(client, "LONGEST_PAUSE_SECONDS", 0.02)


async def seqs(server: Scripted, heard: list[int] | None = None, **more: Any) -> list[int]:
    """The numbers of the events, in a list of the caller's if there is one."""
    heard = [] if heard is None else heard
    async for event in follow(JOB, server.url, **more):
        heard.append(event["seq"])
    return heard


@pytest.mark.parametrize(
    "fault",
    [
        refused("502 Bad Gateway", "Content-Type: text/html", body=b"<h1>nobody home</h1>"),
        refused("503 Service Unavailable", "Retry-After: 0"),
        refused("429 Too Many Requests", "Retry-After: soon"),
        refused("408 Request Timeout"),
        refused("500 Internal Server Error"),
        b"",
        b"HTTP/1.1 200 O",
        HEAD,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        streamed(b": the store does not answer; come back\nretry: 20\n\n"),
        streamed(b'id: 9-9\ndata: {"seq":'),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n400\r\nid: 9-9\ndata: {}\n",
    ],
    ids=repr_of,
)
async def test_what_passes_is_waited_for(fault: bytes) -> None:
    async with Scripted(fault, fault, fault, GOOD) as server:
        assert await seqs(server) == [1, 2, 3]
    assert len(server.requests) == 4
    assert not any(b"Last-Event-ID" in request for request in server.requests)


async def test_a_stream_goes_on_where_it_broke_off() -> None:
    begun = HEAD + b"\r\n" + told(1) + told(2) + told(3)[:-1]  # neither a length nor chunks: until the connection ends
    async with Scripted(begun, refused("502 Bad Gateway"), streamed(told(3, "completed"), END)) as server:
        assert await seqs(server, key=KEY) == [1, 2, 3]
    first, second, third = (request.decode().split("\r\n") for request in server.requests)
    assert first[0] == f"GET /research/stream/{JOB} HTTP/1.1"
    assert {f"Host: 127.0.0.1:{server.port}", "Accept: text/event-stream", f"Authorization: Bearer {KEY}"} <= set(first)
    assert "Last-Event-ID: 2-1" in second
    assert "Last-Event-ID: 2-1" in third


async def test_the_end_may_be_missed_and_is_told_again() -> None:
    async with Scripted(streamed(told(1, "completed")), refused("204 No Content")) as server:
        assert await seqs(server) == [1]
    assert b"Last-Event-ID: 1-1\r\n" in server.requests[1]


async def test_an_event_that_comes_twice_is_told_once() -> None:
    async with Scripted(streamed(told(1), told(2), told(1), told(2)), streamed(told(2), told(3), END)) as server:
        assert await seqs(server) == [1, 2, 3]


async def test_fields_and_frames_that_nobody_knows_yet_are_no_trouble() -> None:
    strange = b'id: 1-1\ndata: {"seq":1,"status":"paused","more":{"deep":[1]}}\n\nevent: news\ndata: x\n\n'
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    async with Scripted(early + streamed(strange, END)) as server:
        events = [event async for event in follow(JOB, server.url + "/folder/")]
    assert events == [{"seq": 1, "status": "paused", "more": {"deep": [1]}}]
    assert server.requests[0].startswith(b"GET /folder/research/stream/research.a HTTP/1.1\r\n")


async def test_a_client_stays_away_for_as_long_as_it_is_asked_to() -> None:
    async with Scripted(refused("503 Service Unavailable", "Retry-After: 1"), GOOD) as server:
        before = time.monotonic()
        assert await seqs(server) == [1, 2, 3]
    assert time.monotonic() - before >= 1


async def test_a_history_that_begins_anew_is_said_and_never_mixed_with_the_old_one() -> None:
    heard: list[int] = []
    async with Scripted(streamed(told(1), told(2), RESET, told(1), END)) as server:
        with pytest.raises(HistoryReset, match="from its beginning") as raised:
            await seqs(server, heard)
    assert heard == [1, 2]
    assert raised.value.job_id == JOB


async def test_a_reset_before_anything_was_told_is_nothing_to_the_caller() -> None:
    async with Scripted(streamed(RESET, told(1), END)) as server:
        assert await seqs(server) == [1]


async def test_going_on_after_an_event_that_is_not_known_is_a_reset() -> None:
    async with Scripted(streamed(RESET, told(1), END)) as server:
        with pytest.raises(HistoryReset):
            await seqs(server, after="7-7")
    assert b"Last-Event-ID: 7-7\r\n" in server.requests[0]


DEEP = b"[" * 20_000 + b"]" * 20_000
PROBLEM = "Content-Type: application/problem+json"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (refused("404 Not Found", PROBLEM, body=b'{"code":"JOB_NOT_FOUND"}'), NoSuchJob, "no job research.a is kept"),
        (refused("404 Not Found", body=b"<h1>nginx</h1>"), GatewayRefused, "answered 404"),
        (
            refused("401 Unauthorized", PROBLEM, body=b'{"code":"X","detail":"a key is needed"}'),
            GatewayRefused,
            "a key",
        ),
        (refused("301 Moved", "Location: https://there.example/"), GatewayRefused, "https://there.example/"),
        (
            refused("200 OK", "Content-Type: text/html", body=b"<h1>hello</h1>"),
            NotAGateway,
            "did not answer with a stream of events",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", NotAGateway, "does not speak HTTP"),
        (b"\0" * 100, NotAGateway, "does not speak HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx", NotAGateway, "HTTP"),
        (streamed(b"data: {\n\n"), NotAGateway, "not a JSON object"),
        (streamed(b"data: [1]\n\n"), NotAGateway, "not a JSON object"),
        (streamed(b'data: {"a":"\xff\xfe"}\xff\n\n'), NotAGateway, "not a JSON object"),
        (streamed(b'data: {"a":' + DEEP + b"}\n\n"), NotAGateway, "not a JSON object"),
        (refused("403 Forbidden", PROBLEM, body=b'{"code":' + DEEP + b"}"), GatewayRefused, "answered 403"),
        (HEAD + b"Content-Encoding: GZip\r\n\r\n" + gzip.compress(told(1)), NotAGateway, "in 'gzip'"),
    ],
    ids=repr_of,
)
async def test_what_does_not_pass_is_said_at_once(answer: bytes, kind: type[FollowError], words: str) -> None:
    async with Scripted(answer) as server:
        with pytest.raises(kind, match=words) as raised:
            await seqs(server, key=KEY)
    assert len(server.requests) == 1
    assert raised.value.job_id == JOB
    assert KEY not in repr(raised.value)


@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nX-Endless: ", b"x" * 4096),
        (HEAD + b"\r\ndata: ", b"x" * 65536),
        (HEAD + b"\r\n", b"data: x\n" * 8192),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ", b"x" * 4096),
    ],
    ids=repr_of,
)
async def test_what_never_ends_is_refused(begin: bytes, endless: bytes) -> None:
    async with Scripted(begin, endless=endless) as server:
        with pytest.raises(NotAGateway, match="over"):
            await seqs(server)


async def test_patience_has_an_end_if_the_caller_says_so() -> None:
    async with Scripted(b"") as server:
        pass  # no server listens there any more
    before = anyio.current_time()
    with pytest.raises(GatewayAway, match=r"no gateway at 127.0.0.1:\d+ for 0.3 s"):
        await seqs(server, patience_seconds=0.3)
    assert 0.3 <= round(anyio.current_time() - before, 3) < 5, "the clock of the loop has steps of milliseconds"
    async with Scripted(streamed(b": the store does not answer; come back\n\n")) as server:
        with pytest.raises(GatewayAway, match="ended before the job did"):
            await seqs(server, patience_seconds=0.3)


async def test_pauses_grow_and_are_not_all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(client, "LONGEST_PAUSE_SECONDS", 15.0)
    monkeypatch.setattr("tailrace.gateway.client.follow.anyio.sleep", note)
    async with Scripted(*[b""] * 40, GOOD) as server:
        await seqs(server)
    for number, pause in enumerate(pauses):
        longest = min(15.0, 0.5 * 2**number)
        assert longest / 2 <= pause <= longest
    assert len(set(pauses)) > 30


async def test_a_gateway_that_stays_away_is_worth_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with Scripted(*[refused("502 Bad Gateway")] * 6, GOOD) as server:
        with caplog.at_level(logging.WARNING):
            await seqs(server, key=KEY)
    (record,) = caplog.records
    assert record.getMessage() == f"gateway_away job={JOB} gateway=127.0.0.1:{server.port} reason='the answer was 502'"


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:3989", "ftp://host", "http://", "http://host:port", "http://[::1", "http://host/?a=b"),
        *("http://me:secret@host", "http://host/\r\nX: y", "http://h ost", "http://hôte", "https://host#part"),
    ],
)
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: "):
        await anext(follow(JOB, url))


@pytest.mark.parametrize("job", ["", "research", "research.", ".a", "research.a/b", "research.a b", "a.b?c", "a.b\r\n"])
async def test_an_id_that_no_job_can_have_is_refused(job: str) -> None:
    with pytest.raises(ValueError, match=r"^job: "):
        await anext(follow(job))


async def test_nothing_of_the_caller_breaks_out_of_a_header() -> None:
    with pytest.raises(ValueError, match=r"^key: "):
        await anext(follow(JOB, key="x\r\nHost: y"))
    with pytest.raises(ValueError, match=r"^after: "):
        await anext(follow(JOB, after="1-1\r\nHost: y"))


async def test_who_leaves_early_leaves_no_connection() -> None:
    quiet = HEAD + b"\r\n" + told(1)
    async with Scripted(quiet, hold=True) as server:
        async for _ in follow(JOB, server.url):
            break
        await asyncio.wait_for(server.left.wait(), 20)
    async with Scripted(quiet, hold=True) as server:
        following = follow(JOB, server.url)
        await anext(following)
        await following.aclose()
        await asyncio.wait_for(server.left.wait(), 20)


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"\r\n"])
async def test_who_is_cancelled_leaves_no_connection(begun: bytes) -> None:
    async with Scripted(begun, hold=True) as server:
        following = asyncio.create_task(seqs(server))
        await eventually("it has asked", server.was_asked)
        await asyncio.sleep(0.05)  # so that it has read what was begun
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        await asyncio.wait_for(server.left.wait(), 20)
    assert len(server.requests) == 1


async def test_silence_is_not_taken_for_a_quiet_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENCE_SECONDS", 0.2)
    async with Scripted(HEAD + b"\r\n" + told(1), hold=True) as server:
        following = follow(JOB, server.url)
        assert (await anext(following))["seq"] == 1
        waiting = asyncio.ensure_future(anext(following))
        await eventually("it asks again", lambda: server.was_asked(2))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert all(b"Last-Event-ID: 1-1\r\n" in request for request in server.requests[1:])


def test_a_client_needs_neither_server_nor_store() -> None:
    """Nor the time to import them."""
    heavy = {"redis", "starlette", "uvicorn", "tailrace.streams"}
    asked = f"import sys, tailrace.gateway; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_over_tls_only_the_right_host_is_spoken_to(tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> None:
    try:
        make = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]
        names = [
            "-subj",
            "/CN=test",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ]
        await asyncio.to_thread(subprocess.run, [*make, *names], cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        leave_out("there is no openssl on this machine")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with Scripted(streamed(told(1)), streamed(told(2), END), tls=server_side) as server:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        assert await seqs(server, tls=trusting) == [1, 2]
        with pytest.raises(NotAGateway, match=r"no safe connection: .*CERTIFICATE_VERIFY_FAILED"):
            await seqs(server)


async def test_where_nobody_speaks_tls_it_is_said_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(refused("400 Bad Request", "Connection: close"))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        with pytest.raises(NotAGateway, match="no safe connection"):
            await anext(follow(JOB, f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"))


ALERT = bytes([21, 3, 3, 0, 2, 2, 80])  # an internal error, as a proxy says it that is ending


@pytest.mark.parametrize("fault", ["leaves at once", "leaves", "breaks off", "alert"])
async def test_a_handshake_that_breaks_off_passes(fault: str) -> None:
    """For example at a proxy that restarts."""
    asked, again = 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            again.set()
        if fault != "leaves at once":
            await reader.read(100)
        if fault == "breaks off":
            writer.transport.abort()
        if fault == "alert":
            writer.write(ALERT)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        events = follow(JOB, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        following = asyncio.ensure_future(anext(events))
        comes_back = asyncio.create_task(again.wait())
        await asyncio.wait([following, comes_back], return_when=asyncio.FIRST_COMPLETED)
        assert not following.done()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
