"""Keys over HTTP: nothing without one, no more than its scopes, and only its platforms."""

import asyncio
import os
import re
from collections.abc import Callable, Sequence

import httpx2
import pytest

from tailrace.gateway.access.api_keys import Scope
from tailrace.gateway.application import TABLE
from tailrace.gateway.route_table import PUBLIC
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.gateway.gateways import CHECKOUT, gateway_thread
from tests.gateway.keyrings import NEW, OF_SCOPE, OLD, SETTING, SHOPS, UNKNOWN, VIEWER, WHOLE, shown
from tests.gateway.routes import CLOSED, JOB_ROUTES, ROUTES, filled
from tests.support.builders import Desk


async def status(http: httpx2.AsyncClient, method: str, path: str, secret: str | None = None) -> int:
    """Of the answer alone: a stream would not end."""
    headers = shown(secret) if secret else {}
    async with http.stream(method, filled(path), headers=headers) as response:
        return response.status_code


async def lines_until(response: httpx2.Response, word: str) -> str:
    told = ""
    async for line in response.aiter_lines():
        told += line
        if word in line:
            break
    return told


def test_every_route_is_in_the_table_and_every_row_is_served() -> None:
    assert {f"{method} {path}" for method, path in ROUTES} == set(TABLE)


def test_hardly_anything_is_public() -> None:
    public = {name for name, said in TABLE.items() if said.scope is PUBLIC}
    assert public == {
        "GET /",
        "GET /docs",
        "GET /jobs/{job_id}",
        "GET /page/{name}",
        "GET /page/{folder}/{name}",
        "GET /healthz",
        "GET /readyz",
        "GET /openapi.json",
        "POST /api/session",
    }


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_a_route_without_a_key_is_closed(locked: httpx2.AsyncClient, method: str, path: str) -> None:
    for headers in (
        {},
        shown(UNKNOWN),
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {WHOLE}"},
        {"Authorization": WHOLE},
        {"Cookie": f"tailrace_session={WHOLE}"},
        {"Cookie": "tailrace_session=trs_0123456789abcdef0123456789abcdef"},
        {"X-Api-Key": WHOLE},
    ):
        for query in ("", f"?ticket={WHOLE}", f"?key={WHOLE}", "?ticket="):
            answer = await locked.request(method, filled(path) + query, headers=headers)
            assert answer.status_code == 401, (headers, query)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "UNAUTHORIZED"
            assert WHOLE not in answer.text


async def test_what_is_public_needs_no_key(locked: httpx2.AsyncClient) -> None:
    for path in ("/healthz", "/readyz", "/", "/jobs/research.none", "/page/style.css"):
        assert (await locked.get(path)).status_code == 200, path
    assert (await locked.post("/api/session")).status_code == 401
    assert (await locked.post("/api/session", json={"key": UNKNOWN})).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/api/jobs/",
        "/healthz/",
        "/page/../metrics",
        "/research/history/",
        "/%72esearch/history/research.a",
        "/research/history/research.a?limit=1",
        "/research/history/research.a?",
        "/RESEARCH/history/research.a",
    ],
)
async def test_no_way_of_writing_a_path_leads_past_the_guard(locked: httpx2.AsyncClient, desk: Desk, path: str) -> None:
    await desk.submit("a")
    for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "get"):
        assert (await locked.request(method, path)).status_code == 401, method


@pytest.mark.parametrize("scope", Scope)
async def test_a_scope_is_good_for_its_routes_and_no_others(locked: httpx2.AsyncClient, scope: Scope) -> None:
    for method, path in CLOSED:
        need = TABLE[f"{method} {path}"].scope
        allowed = scope is Scope.ADMIN or need is scope or not isinstance(need, Scope)
        answer = await status(locked, method, path, OF_SCOPE[scope])
        assert (answer != 403) is allowed, f"{method} {path} answered {answer}"
        assert answer != 401
        if method == "GET":
            assert await status(locked, "HEAD", path, OF_SCOPE[scope]) == answer


async def test_a_missing_scope_is_named(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    answer = await locked.post("/api/jobs/research.a/cancel", headers=shown(OF_SCOPE[Scope.READ]))
    assert (answer.status_code, answer.json()["code"]) == (403, "SCOPE_MISSING")
    assert "act" in answer.json()["detail"]
    answer = await locked.get("/research/history/research.a", headers=shown(OF_SCOPE[Scope.SUBMIT]))
    assert answer.status_code == 403, "the short cut asks too"


@pytest.mark.parametrize("secret", [WHOLE, OLD, NEW])
async def test_several_keys_are_good_at_a_time(locked: httpx2.AsyncClient, desk: Desk, secret: str) -> None:
    await desk.submit("a")
    for path in ("/research/history/research.a", "/api/jobs/research.a", "/api/platforms", "/api/session"):
        assert (await locked.get(path, headers=shown(secret))).status_code == 200
    assert (await locked.get("/api/platforms", headers={"authorization": f"bearer  {secret}"})).status_code == 200


async def test_who_asks_learns_what_the_key_may_do(locked: httpx2.AsyncClient) -> None:
    data = (await locked.get("/api/session", headers=shown(VIEWER))).json()["data"]
    assert data["scopes"] == ["read"]
    assert data["platforms"] == ["ably"]
    data = (await locked.get("/api/session", headers=shown(WHOLE))).json()["data"]
    assert data["scopes"] == ["submit", "read", "act", "admin"]
    assert data["platforms"] is None


@pytest.mark.parametrize(("method", "path"), JOB_ROUTES)
async def test_a_foreign_job_is_as_unknown_as_one_that_never_was(
    locked: httpx2.AsyncClient, desk: Desk, method: str, path: str
) -> None:
    await desk.submit("here")

    async def told(job_id: str) -> tuple[int, str, str]:
        answer = await locked.request(
            method, path.replace("{job_id}", job_id).replace("{name}", "go"), headers=shown(SHOPS)
        )
        return answer.status_code, answer.headers["content-type"], answer.text.replace(job_id, "ID")

    foreign = await told("research.here")
    assert foreign[0] == 404
    assert "JOB_NOT_FOUND" in foreign[2]
    assert foreign == await told("research.none") == await told("ably.none") == await told("nowhere.none")
    assert await status(locked, "GET", "/api/jobs/research.here", WHOLE) == 200, "it is there, and stays there"


async def test_a_platform_of_others_is_as_unknown_as_one_that_never_was(locked: httpx2.AsyncClient) -> None:
    for method, path in CLOSED:
        if path.startswith("/api/platforms/{platform}") and "schedules" not in path:
            answers = [
                await locked.request(method, path.replace("{platform}", name), headers=shown(SHOPS))
                for name in ("research", "nowhere1")
            ]
            assert {answer.status_code for answer in answers} == {404}
            assert "known are ably, kurly" in answers[0].json()["detail"]
            assert answers[0].text.replace("research", "nowhere1") == answers[1].text
    assert await status(locked, "POST", "/api/v2/workers/research/restart", SHOPS) == 404
    for name in ("research", "nowhere"):
        assert await status(locked, "GET", f"/api/platforms/{name}/schedules", SHOPS) == 403


async def test_lists_show_the_platforms_of_a_key_only(
    locked: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    await desk.start("secret2", "mine-1")
    await desk.submit("secret1")
    ably = desk_on("ably")
    await ably.submit("open1")
    http = locked
    http.headers.update(shown(SHOPS))
    assert [each["platform"] for each in (await http.get("/api/platforms")).json()["data"]] == ["ably", "kurly"]
    running = (await http.get("/api/v2/jobs/running")).json()["data"]
    assert running["running"] == []
    assert running["queued"] == {"ably": 1}
    for path in ("/api/v2/workers/status", "/metrics", "/api/platforms", "/api/v2/jobs/running"):
        answer = (await http.get(path)).text
        assert not re.search("secret|research|mine-1", answer), path
    http.headers.update(shown(WHOLE))
    assert "secret2" in (await http.get("/api/v2/jobs/running")).text


async def test_the_stream_of_everything_tells_a_key_of_its_platforms_only(
    locked: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    ably = desk_on("ably")
    async with locked.stream("GET", "/api/events", headers=shown(VIEWER)) as response:
        taking = asyncio.create_task(lines_until(response, "ably.open"))
        number = 0
        while not taking.done():  # the feed is read only while a client listens: it may begin a little later
            number += 1
            assert number < 500
            await desk.complete(await desk.start(f"secret-{number}"))
            await ably.complete(await ably.start(f"open-{number}"))
            await asyncio.wait([taking], timeout=0.05)
    told = taking.result()
    assert "secret" not in told
    assert await status(locked, "GET", "/api/events?platform=research", VIEWER) == 403
    assert await status(locked, "GET", "/api/events?jobs=research.secret", VIEWER) == 403


async def test_a_key_submits_to_its_platforms_only(locked: httpx2.AsyncClient) -> None:
    http = locked
    http.headers.update(shown(SHOPS))
    job = {"platform": "ably", "kind": "drill"}
    assert (await http.post("/api/jobs", json=job)).status_code == 202
    for name in ("research", "nowhere"):
        answer = await http.post("/api/jobs", json={**job, "platform": name})
        assert (answer.status_code, answer.json()["code"]) == (403, "PLATFORM_FORBIDDEN")
        assert "ably, kurly" in answer.json()["detail"]
    assert (await http.post("/research/start", json={"query": "x"})).status_code == 403
    assert (await http.post("/api/v2/workflows/execute", json={"workflow_id": "scan"})).status_code == 403
    assert (await http.post("/api/plans", json={"userId": "u", "goal": "g"})).status_code == 403
    lines = (await http.post("/api/jobs/bulk", json={"jobs": [job, {**job, "platform": "research"}]})).json()["jobs"]
    assert lines[0]["status"] == "waiting"
    assert lines[1]["error"]["code"] == "PLATFORM_FORBIDDEN"


async def test_a_body_that_nobody_may_send_is_not_read(locked: httpx2.AsyncClient) -> None:
    answer = await locked.post("/api/jobs", content=b"x" * 4_000_000, headers={"Content-Type": "application/json"})
    assert answer.status_code == 401
    assert answer.headers["connection"] == "close"


async def test_every_answer_has_the_headers_that_browsers_heed(locked: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for path in ("/healthz", "/", "/page/style.css", "/nothing", "/research/history/research.a", "/metrics"):
        for headers in ({}, shown(WHOLE)):
            answer = await locked.get(path, headers=headers)
            assert answer.headers["x-content-type-options"] == "nosniff", path
            assert answer.headers["referrer-policy"] == "no-referrer", path
            assert "server" not in answer.headers


async def test_the_script_that_asks_what_runs_brings_a_key(locked: httpx2.AsyncClient) -> None:
    async def ask(**variables: str) -> tuple[int | None, bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            "ops/check-running-jobs.sh",
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "API_URL": str(locked.base_url).rstrip("/"), **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, talked = await process.communicate()
        return process.returncode, said, talked

    assert await ask(API_KEY=VIEWER) == (0, b"0 running, 0 waiting\n", b"")
    for variables in ({}, {"API_KEY": UNKNOWN}):
        code, said, talked = await ask(**variables)
        assert (code, said) == (1, b"")
        assert b"answered 401: it asks for a key that it knows; set API_KEY" in talked
    assert b"needs the scope read" in (await ask(API_KEY=OF_SCOPE[Scope.SUBMIT]))[2]


async def test_whoever_does_not_say_who_asks_is_named_by_the_key(locked: httpx2.AsyncClient, desk: Desk) -> None:
    name = (await locked.get("/api/session", headers=shown(WHOLE))).json()["data"]["key"]
    for body, by in ((None, name), ({"by": "ann"}, "ann")):
        paused = await locked.post("/api/platforms/research/pause", json=body, headers=shown(WHOLE))
        assert paused.json()["pausedBy"] == by
        await locked.post("/api/platforms/research/resume", headers=shown(WHOLE))
        await desk.submit(f"of-{by}")
        path = f"/api/jobs/research.of-{by}"
        for act in ("cancel", "retry", "cancel"):
            assert (await locked.post(f"{path}/{act}", json=body, headers=shown(WHOLE))).is_success
        assert (await locked.get(path, headers=shown(WHOLE))).json()["data"]["cancel"]["by"] == by
        history = (await locked.get(f"/research/history/research.of-{by}", headers=shown(WHOLE))).json()
        assert [event.get("by") for event in history] == [None, by, by, by]


async def test_who_signs_in_with_a_wrong_key_is_told_that_it_is_wrong(locked: httpx2.AsyncClient) -> None:
    for body, headers in (({"key": UNKNOWN}, {}), ({}, shown(UNKNOWN))):
        answer = await locked.post("/api/session", json=body, headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (401, "this key is not valid")
    assert "needs a valid API key" in (await locked.post("/api/session")).json()["detail"]


async def test_who_is_no_browser_is_shown_how_to_bring_a_key(locked: httpx2.AsyncClient) -> None:
    words = (await locked.get("/")).text
    assert "read -rs API_KEY" in words
    assert words.count('-H "Authorization: Bearer $API_KEY"') == words.count("curl ") == 2


async def test_a_limited_key_restarts_no_worker_that_others_share(
    locked: httpx2.AsyncClient, desk_on: Callable[[str], Desk]
) -> None:
    async def restarted(secret: str) -> httpx2.Response:
        return await locked.post("/api/v2/workers/ably/restart", headers=shown(secret))

    for platform in ("ably", "kurly"):
        await desk_on(platform).beat("of-the-shops")
    assert (await restarted(SHOPS)).status_code == 202
    for platform in ("ably", "research"):
        await desk_on(platform).beat("of-many")
    refused = await restarted(SHOPS)
    assert (refused.status_code, refused.json()["code"]) == (409, "WORKER_SHARED")
    assert "research" not in refused.text
    assert (await restarted(WHOLE)).status_code == 202


async def test_a_shared_worker_that_starts_while_a_limited_key_asks_is_not_restarted(
    valkey_url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = [(PlatformKeys(platform), ()) for platform in ("ably", "research")]
    look = Transitions.observe

    async def look_before_it_starts(self: Transitions, platforms: Sequence[PlatformKeys]) -> list[dict[str, str]]:
        seen = await look(self, platforms)
        await self.beat(served, "of-many")
        return seen

    monkeypatch.setattr(Transitions, "observe", look_before_it_starts)
    with gateway_thread(valkey_url, {"TAILRACE_API_KEYS": SETTING}) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=20, verify=False) as http:
            refused = await http.post("/api/v2/workers/ably/restart", headers=shown(SHOPS))
            assert (refused.status_code, refused.json()["code"]) == (409, "WORKER_SHARED")
            assert not await store.command("EXISTS", served[0][0]["control"])
            answer = await http.post("/api/v2/workers/ably/restart", headers=shown(WHOLE))
            assert answer.json()["data"]["workers"] == ["of-many"]
