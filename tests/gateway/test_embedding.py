"""A gateway mounted in another application, on a server that is not ours: the same answers, under another path."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

import tailrace.gateway
from tailrace.gateway.embedding import parted
from tailrace.gateway.live.outlets import AsgiOutlet
from tailrace.ops.up.own_store import OwnStore
from tests.gateway import keyrings
from tests.gateway.event_source import EventSource, all_jobs, told
from tests.gateway.gateways import GatewayProcess
from tests.gateway.mounting import COMMAND, PREFIX, host
from tests.support.builders import Desk

JOB = {"platform": "research", "kind": "drill", "id": "a"}


@pytest.fixture(scope="module")
def one_host(valkey: OwnStore) -> Iterator[str]:
    with GatewayProcess(valkey.url, command=COMMAND) as process:
        yield process.url


@pytest.fixture
async def mounted(one_host: str, valkey_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=one_host + PREFIX, timeout=20) as client:
        yield client


async def test_every_link_of_an_answer_leads_to_the_mounted_gateway(mounted: httpx2.AsyncClient, desk: Desk) -> None:
    accepted = await mounted.post("/api/jobs", json=JOB)
    assert accepted.status_code == 202, accepted.text
    links = accepted.json()["links"]
    assert accepted.headers["location"] == links["self"] == f"{PREFIX}/api/jobs/research.a"
    root = str(mounted.base_url).removesuffix(f"{PREFIX}/")
    for link in (links["self"], links["history"]):
        assert (await mounted.get(root + link)).status_code == 200, link
    started = (await mounted.post("/research/start", json={"query": "tides", "jobId": "b"})).json()
    assert started["streamUrl"] == f"{PREFIX}/research/stream/research.b"
    assert started["historyUrl"] == f"{PREFIX}/research/history/research.b"
    assert (await mounted.get("/openapi.json")).json()["servers"] == [{"url": PREFIX}]
    assert f"{mounted.base_url}research/start" in (await mounted.get("/")).text


async def test_a_stream_brings_each_event_and_its_end_on_any_server(one_host: str, desk: Desk, valkey_url: str) -> None:
    attempt = await desk.start("a")
    async with EventSource(one_host + PREFIX, "research.a") as source:
        async with source.open() as stream:
            frames = await stream.take(2)
            await desk.report(attempt, 1)
            frames += await stream.take(1)
            await desk.complete(attempt)
            frames += await stream.rest()
            assert stream.retry
        assert told(frames) == ["queued", "started 1", "progress 1 1", "completed 1", "end"]
        async with source.open(stream.last_id) as again:
            assert again.response.status_code == 204
        async with source.open(frames[1].id, in_query=True) as again:
            assert told(await again.rest()) == ["progress 1 1", "completed 1", "end"]


async def test_the_stream_of_all_jobs_works_on_any_server(one_host: str, desk: Desk, valkey_url: str) -> None:
    async with all_jobs(one_host + PREFIX, "?platform=research") as source, source.open() as stream:
        await desk.start("a")
        (frame,) = await stream.take(1)
    assert (frame.told.status, frame.told.jobId) == ("started", "research.a")


async def test_bodies_are_limited_and_answers_have_the_security_headers(mounted: httpx2.AsyncClient) -> None:
    refused = await mounted.post("/api/jobs", json={**JOB, "args": {"text": "x" * 1_100_000}})
    assert (refused.status_code, refused.json()["code"]) == (413, "TOO_LARGE")
    assert refused.headers["x-frame-options"] == "DENY"
    unknown = await mounted.get("/nothing")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NOT_FOUND")
    assert (await mounted.put("/api/jobs/research.a")).headers["allow"] == "DELETE, GET, HEAD"


async def test_a_page_of_another_origin_may_not_act(mounted: httpx2.AsyncClient) -> None:
    refused = await mounted.post("/api/jobs", json=JOB, headers={"Origin": "https://evil.example.org"})
    assert (refused.status_code, refused.json()["code"]) == (403, "FOREIGN_ORIGIN")


async def test_keys_are_asked_for_and_a_session_belongs_to_the_mounted_path(valkey_url: str, desk: Desk) -> None:
    variables = {"TAILRACE_API_KEYS": keyrings.SETTING}
    with GatewayProcess(valkey_url, variables, command=(*COMMAND, "entered")) as process:
        async with httpx2.AsyncClient(base_url=process.url + PREFIX, timeout=20) as client:
            assert (await client.post("/api/jobs", json=JOB)).status_code == 401
            assert (await client.get("/api/platforms")).status_code == 401
            assert (await client.get("/")).status_code == 200
            key = keyrings.shown(keyrings.WHOLE)
            assert (await client.post("/api/jobs", json=JOB, headers=key)).status_code == 202
            ticket = (await client.post("/api/tickets", json={"jobId": "research.a"}, headers=key)).json()["ticket"]
            ticketed = EventSource(process.url + PREFIX, f"research.a?ticket={ticket}")
            async with ticketed as source, source.open() as stream:
                assert told(await stream.take(1)) == ["queued"]
            signed_in = await client.post("/api/session", headers=key)
            assert f"; Path={PREFIX};" in signed_in.headers["set-cookie"]


async def test_open_streams_do_not_keep_the_server_from_ending(valkey_url: str, desk: Desk) -> None:
    await desk.start("a")
    with GatewayProcess(valkey_url, command=COMMAND) as process:
        async with (
            EventSource(process.url + PREFIX, "research.a") as one,
            all_jobs(process.url + PREFIX) as many,
            one.open() as stream,
            many.open() as all_of_them,
        ):
            assert told(await stream.take(2)) == ["queued", "started 1"]
            process.process.terminate()
            assert await stream.rest() == []
            assert await all_of_them.rest() == []
            assert stream.comments == all_of_them.comments == ["this gateway ends; come back"]
        assert await asyncio.to_thread(process.process.wait, 10) in (0, -15)


async def test_a_client_that_does_not_read_is_dropped_without_a_further_word() -> None:
    sent = []
    stuck = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["body"])
        stuck.set()
        await asyncio.Event().wait()

    outlet = AsgiOutlet(send)
    outlet.write(b"one")
    outlet.write(b"two")
    draining = asyncio.create_task(outlet.drain())
    await stuck.wait()
    outlet.cut()
    await draining
    await outlet.end()
    assert (sent, outlet.closed) == ([b"one"], True)


SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "GET",
    "path": "/api/platforms",
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1")],
    "client": ("127.0.0.1", 1),
}


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        (("127.0.0.1", 1), [(b"host", b"127.0.0.1")], 200),
        (("::1", 1), [(b"host", b"localhost:8000")], 200),
        (None, [(b"host", b"localhost")], 200),
        (("10.0.0.5", 1), [(b"host", b"127.0.0.1")], 403),
        (("127.0.0.1", 1), [(b"host", b"shop.example.org")], 421),
    ],
)
@pytest.mark.parametrize("trust_callers", [False, True])
async def test_without_keys_only_this_machine_is_served_unless_the_host_vouches_for_its_callers(
    valkey_url: str, client: Any, headers: Any, status: int, trust_callers: bool
) -> None:
    statuses = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    jobs = tailrace.gateway.app(valkey_url, trust_callers=trust_callers)
    async with jobs.lifespan():
        await jobs({**SCOPE, "client": client, "headers": headers, "query_string": b"wait=0"}, receive_nothing, send)
    assert statuses == [200 if trust_callers else status]


async def receive_nothing() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_a_test_client_without_a_lifespan_may_ask_again_and_again(valkey_url: str) -> None:
    client = TestClient(tailrace.gateway.app(valkey_url))
    for _ in range(2):  # each request has a loop of its own
        assert client.get("/api/jobs/research.none").status_code == 404
    with client:
        assert client.post("/api/jobs", json=JOB).status_code == 202
    assert client.get("/api/jobs/research.a").status_code == 200


def test_without_a_store_a_request_is_answered_503(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    answer = TestClient(host()).get(f"{PREFIX}/api/platforms")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "STORE_AWAY", "2")


@pytest.mark.parametrize(
    ("path", "root", "of_server", "found"),
    [
        ("/api/x", "", "", ("", "/api/x")),
        ("/jobs/api/x", "/jobs", "", ("/jobs", "/api/x")),
        ("/jobs/", "/jobs", "", ("/jobs", "/")),
        ("/jobs", "/jobs", "", ("/jobs", "/")),
        ("/v1/jobs/api/x", "/v1/jobs", "/v1", ("/v1/jobs", "/api/x")),  # the proxy has left the prefix
        ("/jobs/api/x", "/v1/jobs", "/v1", ("/v1/jobs", "/api/x")),  # the proxy has taken it off
        ("/api/x", "/v1", "", ("/v1", "/api/x")),
    ],
)
def test_the_path_within_the_gateway_is_found(path: str, root: str, of_server: str, found: tuple[str, str]) -> None:
    assert parted({"path": path, "root_path": root, "app_root_path": of_server}) == found
