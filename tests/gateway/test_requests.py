"""Requests as bytes: what HTTP leaves to the server, and what a parser made for speed leaves to us."""

import asyncio
import re
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tailrace.gateway.server import HEAD_BYTES
from tests.gateway.raw import answer_to
from tests.support.builders import Desk


async def flood(gateway: str, opening: bytes, part: bytes) -> None:
    """Send the opening and then parts without end, until the gateway hangs up."""
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(opening)
    with suppress(ConnectionError):
        for _ in range(10_000):
            if reader.at_eof() or writer.is_closing():
                break
            writer.write(part)
            await asyncio.wait_for(writer.drain(), 20)
        else:
            pytest.fail("the gateway went on reading")
    writer.close()


def with_headers(size: int, *, line: int = 1000) -> bytes:
    """A whole request with about this many bytes of headers."""
    fields = b"".join(b"X-%d: %b\r\n" % (number, b"x" * (line - 10)) for number in range(size // line))
    return b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n" % fields


@pytest.mark.parametrize("line", [100, 10_000])
async def test_headers_may_have_a_reasonable_size(gateway: str, line: int) -> None:
    assert (await answer_to(gateway, with_headers(HEAD_BYTES * 3 // 4, line=line))).startswith(b"HTTP/1.1 200 ")
    assert (await answer_to(gateway, with_headers(HEAD_BYTES * 2, line=line))).startswith(b"HTTP/1.1 400 ")


async def test_an_address_of_any_length_is_not_taken(gateway: str) -> None:
    request = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"
    assert (await answer_to(gateway, request % (b"x" * 2 * HEAD_BYTES))).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("part", [b"x" * 1000, b"x: y\r\n" * 200], ids=["one header", "many headers"])
async def test_headers_without_end_are_not_read_on(gateway: str, part: bytes) -> None:
    await flood(gateway, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", part)


@pytest.mark.parametrize("part", [b"x" * 10_000, b"x: y\r\n" * 2000], ids=["one trailer", "many trailers"])
async def test_trailers_without_end_are_not_read_on(gateway: str, part: bytes) -> None:
    head = b"POST /research/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    await flood(gateway, head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", part)


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"], ids=["none", "two"])
async def test_a_request_has_one_host(gateway: str, hosts: bytes) -> None:
    answer = await answer_to(gateway, b"GET /healthz HTTP/1.1\r\n%b\r\n" % hosts)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"MALFORMED"' in answer


async def test_an_old_client_is_served_too(gateway: str) -> None:
    assert (await answer_to(gateway, b"GET /healthz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_requests_sent_together_are_answered_in_order(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    paths = (b"/research/history/research.a", b"/healthz", b"/research/history/research.none", b"/healthz")
    together = b"".join(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths)
    answer = await answer_to(gateway, together + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    words = (b'"queued"', b'"ok"', b'"JOB_NOT_FOUND"', b'"ok"', b"Tailrace serves here")
    places = [0]
    for word in words:
        places.append(answer.index(word, places[-1]) + 1)


async def test_rubbish_behind_a_good_request_does_not_spoil_its_answer(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    good = b"GET /research/history/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
    for many in (1, 2):
        answer = await answer_to(gateway, good * many + b"rubbish\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == answer.count(b'"queued"') == many
        assert b" 400 " not in answer


INNER = "GET /research/history/research.a HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLED = {
    "both lengths": f"Content-Length: {len(INNER)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{INNER}",
    "both lengths, the other way": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + INNER,
    "two lengths": f"Content-Length: 0\r\nContent-Length: {len(INNER)}\r\n\r\n{INNER}",
    "two lengths in one": f"Content-Length: 0, {len(INNER)}\r\n\r\n{INNER}",
    "a signed length": f"Content-Length: +{len(INNER)}\r\n\r\n{INNER}",
    "a negative length": f"Content-Length: -1\r\n\r\n{INNER}",
    "a length in hexadecimal": f"Content-Length: 0x10\r\n\r\n{INNER}",
    "an endless length": f"Content-Length: {'9' * 30}\r\n\r\n{INNER}",
    "an unknown coding": f"Transfer-Encoding: xchunked\r\n\r\n{INNER}",
    "chunked and more": f"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{INNER}",
    "chunked twice": f"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n{INNER}",
    "a space before the colon": f"Content-Length : {len(INNER)}\r\n\r\n{INNER}",
    "a folded header": f"X: a\r\n Content-Length: {len(INNER)}\r\nContent-Length: 0\r\nX:\r\n\tb\r\n\r\n{INNER}",
    "a lone line end": f"X: a\nContent-Length: {len(INNER)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{INNER}",
    "a NUL in a header": f"X: a\x00b\r\n\r\n{INNER}",
    "a bad chunk": f"Transfer-Encoding: chunked\r\n\r\n-1\r\n{INNER}",
    "a chunk beyond all": f"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{INNER}",
}


@pytest.mark.parametrize("rest", SMUGGLED.values(), ids=SMUGGLED)
async def test_what_may_be_read_as_two_requests_is_not_answered_as_two(gateway: str, desk: Desk, rest: str) -> None:
    await desk.submit("a")
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        f"POST /research/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{rest}".encode("latin-1")
    )
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert len(re.findall(rb"HTTP/1\.[01] [0-9]{3} ", answer)) == 1
    assert b"queued" not in answer
