"""Bad input of every sort: refused by the right status, naming the field, and without a trace in the store."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tailrace.gateway.application import TABLE
from tailrace.gateway.bodies import BODY_BYTES, DEPTH
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched
from tests.support.problems import JSON, problem_of


def job(**fields: Any) -> bytes:
    return json.dumps({"platform": "research", "kind": "drill", "args": {}, **fields}).encode()


def nested(levels: int) -> bytes:
    """A body that is `levels` deep, itself and its args included."""
    inner = levels - 2
    return b'{"platform":"research","kind":"own","args":{"x":' + b"[" * inner + b"]" * inner + b"}}"


MALFORMED = {
    "bad UTF-8": b'{"platform":"\xff"}',
    "an encoded surrogate": b'{"platform":"\xed\xa0\x80"}',
    "a lone surrogate": b'{"platform":"\\ud800"}',
    "a lone surrogate as a name": b'{"\\ud800":1}',
    "NaN": b'{"args":NaN}',
    "Infinity": b'{"args":{"x":-Infinity}}',
    "a number beyond all": b'{"args":{"x":1e999}}',
    "an integer beyond all": b'{"args":{"x":' + b"9" * 5000 + b"}}",
    "deep nesting": nested(DEPTH + 1),
    "nesting without end": b"[" * 500_000,
    "objects without end": b'{"a":' * 200_000,
    "an array": b"[]",
    "a string": b'"platform"',
    "null": b"null",
    "trailing words": job() + b"x",
    "two bodies": job() + job(),
    "half a body": job()[:-1],
    "single quotes": b"{'platform':'research'}",
    "a byte order mark": b"\xef\xbb\xbf" + job(),
    "a NUL": b'{"platform":"\x00"}',
    "blanks only": b"   ",
}

WRONG: dict[str, tuple[str, bytes]] = {
    "an unknown field": ("colour", job(colour=3)),
    "a field in the wrong case": ("Platform", job(Platform="research")),
    "no platform": ("platform", b'{"kind":"drill"}'),
    "no kind": ("kind", b'{"platform":"research"}'),
    "an empty object": ("platform", b"{}"),
    "platform null": ("platform", job(platform=None)),
    "platform a number": ("platform", job(platform=7)),
    "platform unknown": ("platform", job(platform="coupang")),
    "platform a path": ("platform", job(platform="../x")),
    "platform with braces": ("platform", job(platform="a}b{")),
    "platform of 300 characters": ("platform", job(platform="a" * 300)),
    "platform empty": ("platform", job(platform="")),
    "platform with a NUL": ("platform", job(platform="research\x00")),
    "kind a number": ("kind", job(kind=1)),
    "kind empty": ("kind", job(kind="")),
    "kind with a space": ("kind", job(kind="a b")),
    "kind of 65 characters": ("kind", job(kind="k" * 65)),
    "id empty": ("id", job(id="")),
    "id with a dot": ("id", job(id="research.a")),
    "id with a colon": ("id", job(id="a:b")),
    "id with a line end": ("id", job(id="a\n")),
    "id of 65 characters": ("id", job(id="k" * 65)),
    "id a number": ("id", job(id=1)),
    "id in another script": ("id", job(id="ü")),
    "priority unknown": ("priority", job(priority="asap")),
    "priority a number": ("priority", job(priority=1)),
    "args a list": ("args", job(args=[])),
    "args null": ("args", job(args=None)),
    "args of an own kind no object": ("args", job(kind="own", args=3)),
    "args with an unknown field": ("args.colour", job(args={"colour": 1})),
    "args with a wrong type": ("args.steps", job(args={"steps": "5"})),
    "args out of range": ("args.steps", job(args={"steps": -1})),
    "args with a wrong word": ("args.block", job(args={"block": "nap"})),
    "args without what is needed": ("args.query", job(kind="research", args={})),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("path", ["/api/jobs", "/api/jobs/bulk", "/research/start", "/api/v2/workflows/execute"])
async def test_what_is_not_a_json_object_is_malformed(
    http: httpx2.AsyncClient, store: Store, path: str, body: bytes
) -> None:
    async with untouched(store):
        problem_of(await http.post(path, content=body, headers=JSON), 400, "MALFORMED")


@pytest.mark.parametrize(("field", "body"), WRONG.values(), ids=WRONG)
async def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    http: httpx2.AsyncClient, store: Store, field: str, body: bytes
) -> None:
    async with untouched(store):
        problem = problem_of(await http.post("/api/jobs", content=body, headers=JSON), 422, "WRONG_FIELD")
    assert problem["field"] == field


@pytest.mark.parametrize(
    ("path", "field", "body"),
    [
        ("/research/start", "query", {}),
        ("/research/start", "query", {"query": ""}),
        ("/research/start", "query", {"query": 7}),
        ("/research/start", "query", {"query": "x" * 100_001}),
        ("/research/start", "jobId", {"query": "x", "jobId": "a/b"}),
        ("/research/start", "jobId", {"query": "x", "jobId": 5}),
        ("/research/start", "depth", {"query": "x", "depth": 5}),
        ("/api/v2/workflows/execute", "workflow_id", {}),
        ("/api/v2/workflows/execute", "workflow_id", {"workflow_id": 1}),
        ("/api/v2/workflows/execute", "params", {"workflow_id": "w", "params": []}),
        ("/api/v2/workflows/execute", "params.platform", {"workflow_id": "w", "params": {"platform": 1}}),
        ("/api/v2/workflows/execute", "params.platform", {"workflow_id": "w", "params": {"platform": "../x"}}),
        ("/api/v2/workflows/execute", "params.steps", {"workflow_id": "drill", "params": {"steps": "many"}}),
        ("/api/v2/workflows/execute", "priority", {"workflow_id": "w", "priority": "soon"}),
        ("/api/v2/workflows/execute", "jobId", {"workflow_id": "w", "jobId": "a b"}),
        ("/api/jobs/bulk", "jobs", {}),
        ("/api/jobs/bulk", "jobs", {"jobs": {}}),
        ("/api/jobs/bulk", "jobs", {"jobs": [1] * 10_001}),
        ("/api/jobs/research.a/cancel", "force", {"force": True}),
    ],
)
async def test_each_route_names_the_fields_of_its_own_body(
    http: httpx2.AsyncClient, store: Store, path: str, field: str, body: Any
) -> None:
    async with untouched(store):
        assert problem_of(await http.post(path, json=body), 422, "WRONG_FIELD")["field"] == field


async def test_an_unknown_platform_is_refused_with_the_known_ones(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/api/jobs", content=job(platform="coupang"), headers=JSON)
    assert "oliveyoung" in answer.json()["detail"]
    assert "plan-generation" in answer.json()["detail"]


async def test_a_very_long_field_name_is_not_sent_back(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/api/jobs", content=job(**{"x" * 500_000: 1}), headers=JSON)
    problem_of(answer, 422, "WRONG_FIELD")


async def test_strange_but_valid_json_is_taken_as_it_is(http: httpx2.AsyncClient) -> None:
    for body in (
        nested(DEPTH),
        b'{"platform":"research","platform":"research","kind":"own"}',
        b' \n{"platform":"research","kind":"own","args":{"big":123456789012345678901234567890,"small":1e-999}}\t',
        b'{"platform":"research","kind":"own","args":{"":"","\\u0000":"\\ud83d\\ude00"}}',
        b'{"platform":"research","kind":"own","args":{"many":[' + b"[]," * 100_000 + b"[]]}}",
        b'{"platform":"research","kind":"own","args":{"brackets":"' + b"[" * 500 + b'"}}',
    ):
        answer = await http.post("/api/jobs", content=body, headers=JSON)
        assert answer.status_code == 202, answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_a_body_of_another_type_is_refused(http: httpx2.AsyncClient, store: Store, kind: str) -> None:
    async with untouched(store):
        problem_of(await http.post("/api/jobs", content=job(), headers={"Content-Type": kind}), 415, "NOT_JSON")


async def test_a_type_with_a_charset_is_fine(http: httpx2.AsyncClient) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await http.post("/api/jobs", content=job(), headers=headers)).status_code == 202


def sized(size: int) -> bytes:
    frame = b'{"platform":"research","kind":"own","args":{"text":"%b"}}'
    return frame % (b"x" * (size - len(frame % b"")))


async def test_a_body_may_have_one_mebibyte_and_no_byte_more(http: httpx2.AsyncClient, store: Store) -> None:
    assert (await http.post("/api/jobs", content=sized(BODY_BYTES), headers=JSON)).status_code == 202
    async with untouched(store):
        answer = await http.post("/api/jobs", content=sized(BODY_BYTES + 1), headers=JSON)
        problem_of(answer, 413, "TOO_LARGE")


async def test_a_chunked_body_is_counted_while_it_is_read(http: httpx2.AsyncClient, store: Store) -> None:
    async def parts(size: int) -> AsyncIterator[bytes]:
        body = sized(size)
        for start in range(0, size, 10_000):
            yield body[start : start + 10_000]

    assert (await http.post("/api/jobs", content=parts(BODY_BYTES), headers=JSON)).status_code == 202
    async with untouched(store):
        answer = await http.post("/api/jobs", content=parts(BODY_BYTES + 1), headers=JSON)
        problem_of(answer, 413, "TOO_LARGE")


async def test_a_body_without_end_is_refused_before_it_ends(gateway: str, store: Store) -> None:
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    async with untouched(store):
        for _ in range(17):
            writer.write(part)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in head.lower()
        try:
            for _ in range(10_000):  # a little more is thrown away; then the gateway hangs up
                writer.write(part)
                await asyncio.wait_for(writer.drain(), 20)
            pytest.fail("the gateway went on reading")
        except (ConnectionError, RuntimeError):  # uvloop raises the latter on a connection that is gone
            assert writer.is_closing()
            writer.close()


async def test_a_client_that_sends_all_before_it_reads_still_learns_why(gateway: str) -> None:
    address = urlsplit(gateway)
    for _ in range(10):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        size = 5 * BODY_BYTES
        writer.write(b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
        assert b'"TOO_LARGE"' in await asyncio.wait_for(reader.read(), 20)
        writer.close()


async def test_a_body_announced_too_large_is_refused_unread(gateway: str) -> None:
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: 99999999999999\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_client_that_leaves_in_the_middle_of_its_body_troubles_nobody(gateway: str, store: Store) -> None:
    address = urlsplit(gateway)
    async with untouched(store):
        for _ in range(5):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: 500\r\n\r\n" + job()[:10])
            await writer.drain()
            writer.close()
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"{gateway}/healthz")).status_code == 200


@pytest.mark.parametrize(
    "job_id", ["x", "research", "research.", ".a", "a}b{.c", "..x.a", "research.a%00", "research.%C3%BC", "r" * 5000]
)
async def test_what_cannot_be_a_job_id_is_not_found(http: httpx2.AsyncClient, store: Store, job_id: str) -> None:
    async with untouched(store):
        for path in ("/research/history/", "/research/stream/", "/api/jobs/"):
            problem_of(await http.get(path + job_id), 404, "JOB_NOT_FOUND")
        problem_of(await http.post(f"/api/jobs/{job_id}/cancel"), 404, "JOB_NOT_FOUND")


async def test_unknown_paths_and_methods_are_problems_too(http: httpx2.AsyncClient) -> None:
    problem_of(await http.get("/nowhere"), 404, "NOT_FOUND")
    problem_of(await http.get("/healthz/"), 404, "NOT_FOUND")
    problem_of(await http.get("/research/history/"), 404, "NOT_FOUND")
    answer = await http.delete("/api/jobs")
    problem_of(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "POST"
    problem_of(await http.post("/research/history/research.a"), 405, "METHOD_NOT_ALLOWED")


async def test_allow_names_every_method_of_a_path(http: httpx2.AsyncClient) -> None:
    served: dict[str, set[str]] = {}
    for method, path in (route.split() for route in TABLE):
        served.setdefault(path, set()).update({"GET", "HEAD"} if method == "GET" else {method})
    served["/api/jobs/bulk"] |= served["/api/jobs/{job_id}"]  # it is a job's id as well
    for path, methods in served.items():
        answer = await http.request("PUT", path)
        problem_of(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == ", ".join(sorted(methods)), path


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nLast-Event-ID: " + b"1" * 20_000,  # and no end
        b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nrubbish\r\n",
    ],
)
async def test_what_is_no_http_is_a_problem_too(gateway: str, request_: bytes) -> None:
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(request_)
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    writer.close()


async def test_rubbish_sent_into_an_open_stream_ends_it(gateway: str, desk: Desk) -> None:
    await desk.submit("a")
    address = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"GET /research/stream/research.a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b"queued"), 20)
    writer.write(b"rubbish\r\n\r\n")
    await asyncio.wait_for(reader.read(), 20)
    writer.close()
