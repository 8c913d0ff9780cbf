"""Submitting over HTTP: what is answered, and that the same request twice is one job."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from msgspec import json

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.replies import read_args
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched
from tests.support.problems import problem_of


async def args_of(desk: Desk, key: str) -> Any:
    return json.decode(await read_args(desk.store, desk.keys, await desk.record(key)) or b"null")


async def test_research_is_accepted_with_the_way_to_follow_it(http: httpx2.AsyncClient, desk: Desk) -> None:
    answer = await http.post("/research/start", json={"query": "tides", "jobId": "t1"})
    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "jobId": "research.t1",
        "status": "queued",
        "message": answer.json()["message"],
        "streamUrl": "/research/stream/research.t1",
        "historyUrl": "/research/history/research.t1",
    }
    assert b'"jobId":"research.t1"' in answer.content, "compact, for those who cut it out with grep"
    assert (await desk.record("t1")).kind == "research"
    assert await args_of(desk, "t1") == {"query": "tides"}


async def test_a_job_without_an_id_gets_one(http: httpx2.AsyncClient) -> None:
    ids = {(await http.post("/research/start", json={"query": "tides"})).json()["jobId"] for _ in range(3)}
    assert len(ids) == 3
    assert all(each.startswith("research.") for each in ids)


async def test_a_job_is_accepted_with_its_links(http: httpx2.AsyncClient, desk: Desk) -> None:
    body = {"platform": "research", "kind": "drill", "args": {"steps": 2}, "id": "d1", "priority": "high"}
    answer = await http.post("/api/jobs", json=body)
    assert answer.status_code == 202
    links = answer.json()["links"]
    assert answer.json() == {"jobId": "research.d1", "status": "waiting", "links": links}
    assert answer.headers["location"] == links["self"]
    for name in ("self", "history"):
        assert (await http.get(links[name])).status_code == 200
    record = await desk.record("d1")
    assert (record.kind, record.band) == ("drill", "high")
    assert await args_of(desk, "d1") == {"steps": 2}


async def test_the_same_request_twice_is_one_job(http: httpx2.AsyncClient, store: Store, desk: Desk) -> None:
    first = await http.post(
        "/api/jobs",
        content=b'{"platform":"research","kind":"own","id":"k","args":{"a":1,"b":2}}',
        headers={"Content-Type": "application/json"},
    )
    assert "idempotency-replayed" not in first.headers
    async with untouched(store):
        again = await http.post(
            "/api/jobs",
            content=b'{"args":{"b":2,"a":1},"id":"k","kind":"own","platform":"research"}',
            headers={"Content-Type": "application/json"},
        )
    assert again.status_code == first.status_code == 202
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    (held,) = await desk.claim()
    later = await http.post(
        "/api/jobs", json={"platform": "research", "kind": "own", "id": "k", "args": {"a": 1, "b": 2}}
    )
    assert later.json()["status"] == "active"
    await desk.complete(held)
    later = await http.post(
        "/api/jobs", json={"platform": "research", "kind": "own", "id": "k", "args": {"a": 1, "b": 2}}
    )
    assert (later.status_code, later.json()["status"]) == (202, "completed")


async def test_the_same_id_with_another_body_is_a_conflict(http: httpx2.AsyncClient, store: Store) -> None:
    body = {"platform": "research", "kind": "own", "args": {"a": 1}, "id": "k"}
    await http.post("/api/jobs", json=body)
    for other in ({"kind": "other"}, {"args": {"a": 2}}, {"priority": "low"}):
        async with untouched(store):
            problem = problem_of(await http.post("/api/jobs", json={**body, **other}), 409, "OTHER_BODY")
        assert "research.k" in problem["detail"]
    async with untouched(store):
        problem_of(await http.post("/research/start", json={"query": "x", "jobId": "k"}), 409, "OTHER_BODY")


async def test_many_at_the_same_moment_are_one_job(
    http: httpx2.AsyncClient, gateways: tuple[str, str], desk: Desk
) -> None:
    async with httpx2.AsyncClient(base_url=gateways[1]) as other:
        body = {"query": "tides", "jobId": "one"}
        answers = await asyncio.gather(*(each.post("/research/start", json=body) for each in [http, other] * 10))
    assert {answer.json()["jobId"] for answer in answers} == {"research.one"}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(await desk.line()) == 1


async def test_a_workflow_runs_on_the_platform_its_params_name(
    http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]
) -> None:
    params = {"platform": "oliveyoung", "product_ids": [1, 2]}
    answer = await http.post(
        "/api/v2/workflows/execute", json={"workflow_id": "daily-prices", "params": params, "jobId": "w1"}
    )
    assert answer.status_code == 202
    data = {"job_id": "oliveyoung.w1", "workflow_id": "daily-prices", "platform": "oliveyoung", "status": "waiting"}
    assert answer.json() == {"success": True, "data": data}
    desk = desk_on("oliveyoung")
    assert (await desk.record("w1")).kind == "scan"
    assert await args_of(desk, "w1") == {"workflow_id": "daily-prices", "params": params}


async def test_a_workflow_that_names_nothing_runs_on_default(
    http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]
) -> None:
    await http.post("/api/v2/workflows/execute", json={"workflow_id": "nightly", "jobId": "n", "priority": "urgent"})
    record = await desk_on("default").record("n")
    assert (record.kind, record.band) == ("scan", "urgent")


async def test_a_workflow_may_be_a_declared_kind(http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]) -> None:
    params = {"platform": "kurly", "steps": 1, "seconds": 0}
    await http.post("/api/v2/workflows/execute", json={"workflow_id": "drill", "params": params, "jobId": "d"})
    desk = desk_on("kurly")
    assert (await desk.record("d")).kind == "drill"
    assert await args_of(desk, "d") == {"steps": 1, "seconds": 0}


async def test_a_workflow_called_scan_is_a_scan_of_its_params(
    http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]
) -> None:
    params = {"platform": "kurly", "product_ids": [7]}
    answer = await http.post("/api/v2/workflows/execute", json={"workflow_id": "scan", "params": params, "jobId": "s"})
    assert answer.status_code == 202
    assert await args_of(desk_on("kurly"), "s") == {"workflow_id": "scan", "params": params}


@pytest.mark.parametrize(("wrong", "field"), [("abc", ""), (None, ""), ([1, None, {}], "[1]"), ([1] * 10_001, "")])
async def test_products_that_are_no_list_of_ids_are_refused_by_their_name(
    http: httpx2.AsyncClient, store: Store, wrong: Any, field: str
) -> None:
    params = {"product_ids": wrong, "shop": {"any": "thing"}}
    async with untouched(store):
        for workflow in ("scan", "daily-prices"):
            body = {"workflow_id": workflow, "params": params}
            problem = problem_of(await http.post("/api/v2/workflows/execute", json=body), 422, "WRONG_FIELD")
            assert problem["field"] == f"params.product_ids{field}"
        job = {"platform": "kurly", "kind": "scan", "args": {"params": params}}
        problem = problem_of(await http.post("/api/jobs", json=job), 422, "WRONG_FIELD")
        assert problem["field"] == f"args.params.product_ids{field}"


async def test_a_wrong_field_of_a_workflow_of_another_kind_is_named_as_it_was_sent(http: httpx2.AsyncClient) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [({"steps": -1}, "params.steps"), ({"params": {}}, "params.params")]
    for params, field in wrong:
        body = {"workflow_id": "drill", "params": params}
        problem = problem_of(await http.post("/api/v2/workflows/execute", json=body), 422, "WRONG_FIELD")
        assert problem["field"] == field


async def test_of_many_jobs_the_valid_ones_are_accepted_and_the_others_named(
    http: httpx2.AsyncClient, store: Store
) -> None:
    good = {"platform": "research", "kind": "drill", "id": "g1"}
    body = {
        "jobs": [
            good,
            {"platform": "../x", "kind": "drill"},
            "rubbish",
            {"platform": "ably", "kind": "own", "args": {"n": 1}},
            {**good, "args": {"steps": 1}},
            {"platform": "research", "kind": "drill", "args": {"steps": "x"}},
            {"platform": "research", "kind": "drill", "delay_seconds": -3},
            good,
        ]
    }
    answer = await http.post("/api/jobs/bulk", json=body)
    assert answer.status_code == 202
    reply = answer.json()
    assert (reply["accepted"], reply["refused"]) == (3, 5)
    jobs = reply["jobs"]
    assert jobs[0] == jobs[7] == {"jobId": "research.g1", "status": "waiting"}
    assert jobs[3]["jobId"].startswith("ably.")
    assert [job["error"]["index"] for job in jobs if "error" in job] == [1, 2, 4, 5, 6]
    errors = [(job["error"]["code"], job["error"]["field"]) for job in jobs if "error" in job]
    assert errors == [
        ("WRONG_FIELD", "platform"),
        ("WRONG_FIELD", errors[1][1]),
        ("OTHER_BODY", None),
        ("WRONG_FIELD", "args.steps"),
        ("WRONG_FIELD", "delay_seconds"),
    ]
    assert all(job["error"]["detail"] for job in jobs if "error" in job)
    assert await store.command("XLEN", PlatformKeys("research").jobs("normal")) == 1


async def test_ten_thousand_jobs_fit_into_one_request(http: httpx2.AsyncClient, desk: Desk) -> None:
    body = {"jobs": [{"platform": "research", "kind": "own", "id": f"b{number}"} for number in range(10_000)]}
    reply = (await http.post("/api/jobs/bulk", json=body)).json()
    assert (reply["accepted"], reply["refused"], len(reply["jobs"])) == (10_000, 0, 10_000)
    assert reply["jobs"][9_999]["jobId"] == "research.b9999"
    assert len(await desk.line()) == 10_000


async def test_a_dedupe_key_answers_with_the_job_that_holds_it_and_says_so(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    body = {"platform": "research", "kind": "own", "dedupe": {"key": "nightly"}}
    first = (await http.post("/api/jobs", json=body)).json()
    assert "deduplicated" not in first
    async with untouched(store):
        again = await http.post("/api/jobs", json={**body, "args": {"other": 1}, "id": "mine"})
    assert (again.status_code, again.json()) == (202, {**first, "deduplicated": True})
    assert again.headers["location"] == f"/api/jobs/{first['jobId']}"
    assert "idempotency-replayed" not in again.headers, "it is not the same request"
    reply = (await http.post("/api/jobs/bulk", json={"jobs": [body]})).json()
    assert reply["jobs"] == [{"jobId": first["jobId"], "status": "waiting", "deduplicated": True}]
    assert len(await desk.line()) == 1


async def test_every_option_of_a_job_is_taken(http: httpx2.AsyncClient, desk: Desk) -> None:
    body = {
        "platform": "research",
        "kind": "own",
        "id": "a",
        "priority": "low",
        "delay_seconds": 60,
        "expires_at": "2099-01-01T00:00:00Z",
        "attempts": 5,
        "backoff": "fixed",
        "backoff_seconds": 2,
        "backoff_cap_seconds": 10,
        "jitter": 0,
        "timeout_seconds": 30,
        "lifetime_seconds": 300,
        "order_key": "o",
        "limit_key": "l",
        "keep_seconds": 7200,
        "dedupe": {"key": "d", "mode": "throttle", "ttl_seconds": 60},
    }
    for _ in range(2):
        answer = await http.post("/api/jobs", json=body)
        assert (answer.status_code, answer.json()["status"]) == (202, "delayed")
    assert answer.headers["idempotency-replayed"] == "true"
    record = await desk.record("a")
    assert (record.band, record.marks) == ("low", "order=o limit=l keep=7200")
    problem_of(await http.post("/api/jobs", json={**body, "attempts": 6}), 409, "OTHER_BODY")


WRONG_OPTIONS: dict[str, dict[str, Any]] = {
    "delay_seconds": {"delay_seconds": -1},
    "run_at": {"run_at": "tomorrow"},
    "expires_at": {"run_at": "2099-01-02T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z"},
    "attempts": {"attempts": 0},
    "timeout_seconds": {"timeout_seconds": -5},
    "jitter": {"jitter": 2},
    "backoff": {"backoff": "linear"},
    "backoff_cap_seconds": {"backoff_seconds": 5, "backoff_cap_seconds": 1},
    "order_key": {"order_key": "a b"},
    "limit_key": {"limit_key": ""},
    "first": {"first": True, "delay_seconds": 5},
    "keep_seconds": {"keep_seconds": "long"},
    "dedupe.key": {"dedupe": {"key": "{x}"}},
    "dedupe.mode": {"dedupe": {"key": "x", "mode": "debounce"}},
    "dedupe.ttl_seconds": {"dedupe": {"key": "x", "mode": "throttle"}},
}


@pytest.mark.parametrize(("field", "options"), WRONG_OPTIONS.items(), ids=WRONG_OPTIONS)
async def test_a_wrong_option_is_refused_by_its_name(
    http: httpx2.AsyncClient, store: Store, field: str, options: dict[str, Any]
) -> None:
    body = {"platform": "research", "kind": "own", **options}
    async with untouched(store):
        problem = problem_of(await http.post("/api/jobs", json=body), 422, "WRONG_FIELD")
        (refused,) = (await http.post("/api/jobs/bulk", json={"jobs": [body]})).json()["jobs"]
    assert problem["field"] == refused["error"]["field"] == field
    assert refused["error"]["index"] == 0
