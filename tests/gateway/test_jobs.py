"""Jobs over HTTP: what they are now, what runs and waits, and calling one off."""

import re
from collections.abc import Callable

import httpx2

from tailrace.streams.store.connection import Store
from tests.gateway.gateways import gateway_thread
from tests.support.builders import Desk, forge, untouched
from tests.support.problems import problem_of

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_a_job_is_shown_through_its_whole_life(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert TIME.fullmatch(shown["createdAt"])
    links = shown["links"]
    assert shown == {
        "jobId": "research.a",
        "status": "waiting",
        "progress": None,
        "result": None,
        "error": None,
        "attempt": None,
        "kind": "drill",
        "platform": "research",
        "priority": "normal",
        "createdAt": shown["createdAt"],
        "startedAt": None,
        "endedAt": None,
        "runAt": None,
        "expiresAt": None,
        "workerId": None,
        "failures": 0,
        "crashes": 0,
        "limits": {"attempts": 3, "crashes": 3, "starts": 100, "timeoutSeconds": None, "lifetimeSeconds": None},
        "orderKey": None,
        "limitKey": None,
        "dedupeKey": None,
        "cancel": None,
        "links": links,
        "waiting": shown["waiting"],
        "awaits": None,
        "parent": None,
    }
    (held,) = await desk.claim("ann")
    await desk.report(held, 1, 40)
    shown = (await http.get(links["self"])).json()["data"]
    assert (shown["status"], shown["progress"], shown["attempt"], shown["workerId"]) == ("active", 40, 1, "ann")
    assert TIME.fullmatch(shown["startedAt"])
    await desk.complete(held, {"answer": [42, 1.5, "ü", 123456789012345678901234567890]})
    shown = (await http.get(links["self"])).json()["data"]
    assert (shown["status"], shown["error"]) == ("completed", None)
    assert shown["result"] == {"answer": [42, 1.5, "ü", 123456789012345678901234567890]}
    assert TIME.fullmatch(shown["endedAt"])


async def test_a_failed_job_says_why(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.fail(await desk.start("a"), "no such page")
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert (shown["status"], shown["result"]) == ("failed", None)
    assert shown["error"] == {"type": "ValueError", "message": "no such page"}


async def test_a_job_taken_from_its_worker_waits_for_another(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.reclaim(await desk.start("a"))
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert (shown["status"], shown["attempt"], shown["workerId"]) == ("waiting", 1, None)


async def test_a_second_result_written_by_hand_is_not_the_result(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await desk.complete(await desk.start("a"), "first")
    await store.command("RPUSH", desk.keys.log("a"), forge("research.a", 9, 1, "completed", result="second"))
    assert (await http.get("/api/jobs/research.a")).json()["data"]["result"] == "first"


async def test_an_unknown_job_is_not_found(http: httpx2.AsyncClient, store: Store) -> None:
    async with untouched(store):
        for path in ("/api/jobs/", "/research/history/", "/research/stream/"):
            assert "research.none" in problem_of(await http.get(f"{path}research.none"), 404, "JOB_NOT_FOUND")["detail"]
        problem_of(await http.post("/api/jobs/research.none/cancel"), 404, "JOB_NOT_FOUND")
        problem_of(await http.get("/api/jobs/coupang.a"), 404, "JOB_NOT_FOUND")


async def test_a_waiting_job_is_cancelled_once_and_for_all(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    for _ in range(2):
        answer = await http.post("/api/jobs/research.a/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert (await http.get("/api/jobs/research.a")).json()["data"]["status"] == "cancelled"
    assert await desk.story("a") == ["queued", "cancelled"]
    assert await desk.claim() == []


async def test_a_job_tells_what_was_asked_for_and_what_is_still_to_come(http: httpx2.AsyncClient, desk: Desk) -> None:
    body = {
        "platform": "research",
        "kind": "own",
        "id": "a",
        "run_at": "2099-01-31T10:00:00+01:00",
        "expires_at": "2099-02-01T00:00:00Z",
        "attempts": 7,
        "timeout_seconds": 1.5,
        "order_key": "cart:7",
        "limit_key": "shop/1",
        "dedupe": {"key": "d@1"},
    }
    assert (await http.post("/api/jobs", json=body)).json()["status"] == "delayed"
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert (shown["status"], shown["runAt"]) == ("delayed", "2099-01-31T09:00:00.000Z")
    assert shown["expiresAt"] == "2099-02-01T00:00:00.000Z"
    assert (shown["limits"]["attempts"], shown["limits"]["timeoutSeconds"]) == (7, 1.5)
    assert (shown["orderKey"], shown["limitKey"], shown["dedupeKey"]) == ("cart:7", "shop/1", "d@1")


async def test_a_job_that_was_not_started_in_time_still_tells_its_time(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a", expires_at="2020-01-01T00:00:00Z")
    assert (await http.get("/api/jobs/research.a")).json()["data"]["expiresAt"] == "2020-01-01T00:00:00.000Z"
    await desk.transitions.wake([(desk.keys, desk.policy)])
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert (shown["status"], shown["error"]["type"]) == ("failed", "Expired")
    assert shown["expiresAt"] == "2020-01-01T00:00:00.000Z"


async def test_a_job_that_failed_and_crashed_says_how_often(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.fail(await desk.start("a"), attempts=3)
    (held,) = await desk.claim()
    await desk.reclaim(held)
    shown = (await http.get("/api/jobs/research.a")).json()["data"]
    assert (shown["failures"], shown["crashes"], shown["attempt"]) == (1, 1, 2)


async def test_delayed_jobs_do_not_count_as_waiting(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("later", delay_seconds=600)
    await desk.fail(await desk.start("again"), attempts=3, seconds=600)
    await desk.submit("now")
    data = (await http.get("/api/v2/jobs/running")).json()["data"]
    assert data["queued"] == {"research": 1}


async def test_running_tells_what_runs_and_what_waits(http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]) -> None:
    assert (await http.get("/api/v2/jobs/running")).json() == {
        "success": True,
        "data": {"running": [], "queued": {}, "summary": {"running_count": 0, "queued_count": 0}},
    }
    hwahae, musinsa = desk_on("hwahae"), desk_on("musinsa")
    await hwahae.submit("s1", args=b'{"workflow_id":"daily-prices","params":{}}')
    await hwahae.submit("s2", "s3", "s4")
    (held,) = await hwahae.claim()
    await musinsa.submit("m1")
    data = (await http.get("/api/v2/jobs/running")).json()["data"]
    (running,) = data["running"]
    assert 0 <= running.pop("elapsed_seconds") < 30
    assert TIME.fullmatch(running.pop("started_at"))
    assert running == {"platform": "hwahae", "job_id": "hwahae.s1", "workflow_id": "daily-prices", "progress": None}
    assert data["queued"] == {"hwahae": 3, "musinsa": 1}
    assert data["summary"] == {"running_count": 1, "queued_count": 4}
    await hwahae.complete(held)
    data = (await http.get("/api/v2/jobs/running")).json()["data"]
    assert (data["running"], data["queued"]) == ([], {"hwahae": 3, "musinsa": 1})


async def test_alive_ready_and_welcome(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready", "advice": []}
    welcome = await http.get("/")
    assert "/research/start" in welcome.text
    assert "server" not in welcome.headers


async def test_a_store_that_would_lose_jobs_is_not_ready(http: httpx2.AsyncClient, store: Store) -> None:
    await store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        problem = problem_of(await http.get("/readyz"), 503, "STORE_UNFIT")
        assert "noeviction" in problem["detail"]
    finally:
        await store.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_full_store_takes_no_new_jobs_and_says_when_to_come_back(
    http: httpx2.AsyncClient, store: Store, desk: Desk
) -> None:
    held = await desk.start("a")
    await store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        for path, body in (
            ("/research/start", {"query": "x"}),
            ("/api/jobs", {"platform": "research", "kind": "drill"}),
            ("/api/jobs/bulk", {"jobs": [{"platform": "research", "kind": "drill"}]}),
        ):
            answer = await http.post(path, json=body)
            problem_of(answer, 503, "STORE_FULL")
            assert int(answer.headers["retry-after"]) > 0
        assert await desk.complete(held) == "ok"
        assert (await http.get("/api/jobs/research.a")).json()["data"]["status"] == "completed"
    finally:
        await store.command("CONFIG", "SET", "maxmemory", 0)


async def test_a_key_of_the_wrong_type_is_our_trouble_and_not_told_in_detail(valkey_url: str, desk: Desk) -> None:
    await desk.store.command("SET", desk.keys.record("broken"), "x")
    with gateway_thread(valkey_url) as server:
        async with httpx2.AsyncClient(base_url=server.url) as http:
            for path in ("/api/jobs/", "/research/history/", "/research/stream/"):
                problem = problem_of(await http.get(f"{path}research.broken"), 500, "INTERNAL")
                assert "WRONGTYPE" not in problem["detail"]
