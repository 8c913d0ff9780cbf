"""Every Last-Event-ID, on every kind of job: a valid stream or a clear answer, at once."""

import asyncio
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.gateway.histories import END, history_of, race
from tests.support.builders import Desk

FIRST_BYTE_SECONDS = 20.0  # a machine with much else to do; usually it is a few milliseconds

SENT = {
    "absent": b"",
    "empty": b"Last-Event-ID:\r\n",
    "spaces": b"Last-Event-ID:    \r\n",
    "zero": b"Last-Event-ID: 0\r\n",
    "a number": b"Last-Event-ID: 3\r\n",
    "zero of an id": b"Last-Event-ID: 0-0\r\n",
    "garbage": b"Last-Event-ID: \x22<script>'; DROP--\r\n",
    "10 KB": b"Last-Event-ID: %b\r\n" % (b"7" * 10_240),
    "10 KB like an id": b"Last-Event-ID: %b-%b\r\n" % (b"7" * 5_000, b"7" * 5_000),
    "future": b"Last-Event-ID: 9999-1999999999999999\r\n",
    "the largest number": b"Last-Event-ID: 999999999999999999-999999999999999999999999\r\n",
    "no ASCII": b"Last-Event-ID: \xff\xfe\xe2\x80\xa8\r\n",
    "digits of others": "Last-Event-ID: ٢-٢\r\n".encode(),
    "twice": b"Last-Event-ID: x\r\nLast-Event-ID: y\r\n",
    "a list": b"Last-Event-ID: 1-1, 2-2\r\n",
    "a tab": b"Last-Event-ID: 1\t-\t1\r\n",
}
QUERIES = {
    "in the query": b"?lastEventId=zzz",
    "empty in the query": b"?lastEventId=",
    "broken in the query": b"?lastEventId=%ff%fe%",
    "NUL in the query": b"?lastEventId=1%00",
    "lines in the query": b"?lastEventId=1%0a%0aevent:%20x",
    "twice in the query": b"?lastEventId=a&lastEventId=b",
    "10 KB in the query": b"?lastEventId=%b" % (b"7" * 10_240),
}
NONE = {"absent", "empty", "spaces", "empty in the query"}
CASES = [*((name, b"", header) for name, header in SENT.items()), *((name, q, b"") for name, q in QUERIES.items())]


async def first_words(url: str, job_id: str, query: bytes, headers: bytes) -> tuple[bytes, bytes]:
    """The status line, and what follows the head as far as it came with the first words."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        path = f"/research/stream/{job_id}".encode() + query
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n" % (path, headers))
        async with asyncio.timeout(FIRST_BYTE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            body = b""
            while b"\ndata: " not in body and (more := await reader.read(4096)):
                body += more
        return head.partition(b"\r\n")[0], body
    finally:
        writer.close()


@pytest.mark.parametrize(("name", "query", "headers"), CASES, ids=[case[0] for case in CASES])
async def test_every_id_gets_a_stream_or_an_answer(
    gateway: str, desk: Desk, name: str, query: bytes, headers: bytes
) -> None:
    await (await race(desk, "ended"))()
    await desk.start("live")
    for key in ("live", "ended"):
        status, body = await first_words(gateway, f"research.{key}", query, headers)
        assert status == b"HTTP/1.1 200 OK"
        assert b"retry: " in body
        assert (b"event: reset\n" in body) is (name not in NONE), f"{key}: {body!r}"
    status, body = await first_words(gateway, "research.unknown", query, headers)
    assert status == b"HTTP/1.1 404 Not Found"
    assert b"JOB_NOT_FOUND" in body


async def test_who_has_seen_the_end_of_a_job_is_sent_away_and_who_has_not_is_told(
    gateway: str, http: httpx2.AsyncClient, desk: Desk
) -> None:
    await (await race(desk, "over"))()
    ids = [event["id"].encode() for event in await history_of(http, "over")]
    status, body = await first_words(gateway, "research.over", b"", b"Last-Event-ID: %b\r\n" % ids[-1])
    assert (status, body) == (b"HTTP/1.1 204 No Content", b"")
    status, body = await first_words(gateway, "research.over", b"?lastEventId=" + ids[-1], b"Last-Event-ID: x\r\n")
    assert b"event: reset\n" in body, "the header goes before the query"
    status, body = await first_words(gateway, "research.over", b"?lastEventId=" + ids[-1], b"Last-Event-ID:\r\n")
    assert status == b"HTTP/1.1 204 No Content", "an empty header is none"
    assert len(ids) == len(END)


async def test_the_id_of_another_job_resets_on_live_and_ended_jobs(
    gateway: str, http: httpx2.AsyncClient, desk: Desk
) -> None:
    await (await race(desk, "one"))()
    await desk.start("two")
    one, two = [[event["id"].encode() for event in await history_of(http, key)] for key in ("one", "two")]
    for key, foreign in (("one", two), ("two", one)):
        for last_id in foreign:
            status, body = await first_words(gateway, f"research.{key}", b"", b"Last-Event-ID: %b\r\n" % last_id)
            assert status == b"HTTP/1.1 200 OK"
            assert b"event: reset\n" in body


async def test_an_id_too_long_for_a_head_is_refused(gateway: str, desk: Desk) -> None:
    await desk.start("a")
    for query, headers in ((b"", b"Last-Event-ID: %b\r\n" % (b"7" * 20_000)), (b"?lastEventId=" + b"7" * 20_000, b"")):
        status, body = await first_words(gateway, "research.a", query, headers)
        assert status == b"HTTP/1.1 400 Bad Request"
        assert b"MALFORMED" in body


@pytest.mark.parametrize(("name", "query", "headers"), CASES, ids=[case[0] for case in CASES])
async def test_on_the_stream_of_many_jobs_any_id_means_that_some_may_be_missing(
    http: httpx2.AsyncClient, gateway: str, name: str, query: bytes, headers: bytes
) -> None:
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"GET /api/events%b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (query, headers))
    async with asyncio.timeout(FIRST_BYTE_SECONDS):
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        words = await reader.readuntil(b"retry: ")
        words += await reader.readuntil(b"\n\n\r\n")
    assert (b"event: reset\n" in words) is (name not in NONE)
    writer.close()
