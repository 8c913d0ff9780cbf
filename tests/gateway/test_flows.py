"""Flows over HTTP: trees, what a job spawned, signals, and what an awaiting job tells."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tailrace.streams.flows.relay import Relay
from tailrace.streams.operations import Again
from tailrace.streams.store.connection import Store
from tests.gateway.keyrings import SHOPS, shown
from tests.support.builders import Desk, untouched
from tests.support.flowing import child_of, spawn, wait, waiting_parent
from tests.support.problems import problem_of

LEAF = {"platform": "kurly", "kind": "drill"}


async def flow_of(http: httpx2.AsyncClient, job_id: str, **query: Any) -> dict[str, Any]:
    answer = await http.get(f"/api/jobs/{job_id}/flow", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


async def test_a_signal_lets_a_job_go_on(http: httpx2.AsyncClient, desk: Desk, store: Store) -> None:
    held = await desk.start("a")
    await wait(desk, held, "signal", "~1", name="approval", seconds=600)
    job = (await http.get("/api/jobs/research.a")).json()["data"]
    assert job["status"] == "waiting-children"
    assert (job["awaits"]["for"], job["awaits"]["signal"]) == ("signal", "approval")
    (reason,) = job["waiting"]["for"]
    assert reason["detail"] == f"It awaits the signal approval, until {job['awaits']['until']} at the latest."
    answer = await http.post("/api/jobs/research.a/signals/approval", json={"data": {"ok": True}})
    assert (answer.status_code, answer.json()) == (
        202,
        {"jobId": "research.a", "signal": "approval", "status": "delivered"},
    )
    async with untouched(store):
        again = await http.post("/api/jobs/research.a/signals/approval")
    assert (again.status_code, again.json()["status"]) == (202, "again")
    assert (await http.get("/api/jobs/research.a")).json()["data"]["awaits"] is None


async def test_a_retried_parent_is_told_which_job_below_it_failed(http: httpx2.AsyncClient, desk: Desk) -> None:
    await waiting_parent(desk, "research.b")
    (child,) = await desk.claim()
    await desk.fail(child)
    (parent,) = await desk.claim()
    error = b',"error":{"type":"ChildFailed","message":"m","child":"research.b"}'
    for _ in range(2):
        await desk.transitions.fail(desk.keys, "a", parent.nonce, Again(0, 0, 100), error)
        assert (await http.get("/api/jobs/research.a")).json()["data"]["error"]["child"] == "research.b"
        answer = (await http.post("/api/jobs/research.a/retry")).json()
        assert (answer["status"], answer["failedChild"]) == ("waiting", "research.b")
        (parent,) = await desk.claim()
    await desk.transitions.fail(desk.keys, "a", parent.nonce, Again(0, 0, 100), error)
    assert (await http.post("/api/jobs/research.b/retry")).json()["failedChild"] is None
    assert (await http.get("/api/jobs/research.a")).json()["data"]["status"] == "waiting-children"


async def test_a_signal_that_cannot_be_taken_is_refused(http: httpx2.AsyncClient, desk: Desk, store: Store) -> None:
    await desk.complete(await desk.start("done"))
    await desk.submit("a")
    path = "/api/jobs/research.a/signals/"
    async with untouched(store):
        ended = await http.post("/api/jobs/research.done/signals/go")
        assert problem_of(ended, 409, "JOB_ENDED")
        assert problem_of(await http.post("/api/jobs/research.none/signals/go"), 404, "JOB_NOT_FOUND")
        assert problem_of(await http.post(f"{path}a%20b"), 422, "WRONG_FIELD")["field"] == "name"
        assert problem_of(await http.post(f"{path}go", json={"date": 1}), 422, "WRONG_FIELD")["field"] == "date"
        assert problem_of(await http.post(f"{path}go", json={"data": "x" * 300_000}), 413, "TOO_LARGE")
        assert (
            problem_of(await http.post(f"{path}go", json={"data": "x" * 262_143}), 422, "WRONG_FIELD")["field"]
            == "data"
        )


async def test_the_flow_of_a_job_is_a_tree_in_pages(
    http: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    kurly, relay = desk_on("kurly"), Relay(desk.transitions)
    held = await desk.start("a")
    ids = [f"kurly.c{number}" for number in range(5)]
    await spawn(desk, held, *ids, "research.d", child_of("kurly.mail", child=False))
    await relay.deliver(desk.keys)
    running, done, *_ = await kurly.claim(slots=2)
    await kurly.report(running, 1, 40)
    await spawn(kurly, running, "research.e")
    await relay.deliver(kurly.keys)
    await kurly.complete(done)
    await kurly.transitions.drop(kurly.keys, "c2")
    page = await flow_of(http, "research.a", limit=4)
    assert (page["jobId"], page["status"], page["total"], page["next"]) == ("research.a", "active", 7, "kurly.c3")
    first = page["children"][0]
    assert first == {
        "jobId": "kurly.c0",
        "kind": "drill",
        "platform": "kurly",
        "status": "active",
        "progress": 40.0,
        "total": 1,
        "children": [
            {
                "jobId": "research.e",
                "kind": "drill",
                "platform": "research",
                "status": "waiting",
                "progress": None,
                "total": 0,
                "children": [],
            }
        ],
    }
    assert [child["status"] for child in page["children"]] == ["active", "completed", "waiting", "waiting"]
    rest = await flow_of(http, "research.a", after=page["next"])
    assert [child["jobId"] for child in rest["children"]] == ["kurly.c4", "research.d"], "not the one it only submitted"
    assert rest["next"] is None
    answer = await http.get("/api/jobs/research.a/flow?limit=0")
    assert problem_of(answer, 422, "WRONG_FIELD")["field"] == "limit"
    assert (await http.get("/api/jobs/research.none/flow")).status_code == 404


async def test_a_child_that_is_gone_or_corrupt_is_told_as_its_parent_knows_it(
    http: httpx2.AsyncClient, desk: Desk, store: Store
) -> None:
    await waiting_parent(desk, "research.b", "research.c", "kurly.d")
    (child,) = await desk.claim()
    await desk.fail(child)
    await desk.transitions.drop(desk.keys, "b")
    await store.command("DEL", desk.keys.record("c"))
    await store.command("SET", desk.keys.record("c"), "corrupt")
    told = (await flow_of(http, "research.a"))["children"]
    assert [(each["jobId"], each["status"], each["kind"]) for each in told] == [
        ("kurly.d", "waiting", None),
        ("research.b", "failed", None),
        ("research.c", "waiting", None),
    ]


async def test_a_job_tells_its_parent_and_how_many_children_it_awaits(http: httpx2.AsyncClient, desk: Desk) -> None:
    await waiting_parent(desk, "research.b", "kurly.c", fails=1)
    job = (await http.get("/api/jobs/research.a")).json()["data"]
    assert job["awaits"] == {"for": "children", "pending": 2, "signal": None, "until": None}
    assert job["waiting"]["for"][0]["detail"] == (
        "It awaits the end of 2 children. The first child that does not complete lets it go on as well."
    )
    assert (await http.get("/api/jobs/research.b")).json()["data"]["parent"] == "research.a"
    listed = (await http.get("/api/platforms/research/jobs?state=waiting-children")).json()["data"]
    assert [each["jobId"] for each in listed] == ["research.a"]
    platform = (await http.get("/api/platforms/research?wait=0")).json()["data"]
    assert (platform["waiting"], platform["awaiting"]) == (1, 1)


async def test_cancelling_a_job_cancels_its_children_everywhere(
    http: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    await waiting_parent(desk, "research.b", "kurly.c")
    await Relay(desk.transitions).deliver(desk.keys)
    assert (await http.post("/api/jobs/research.a/cancel")).status_code == 200
    assert [(await desk.record("b")).state, (await desk_on("kurly").record("c")).state] == ["cancelled", "cancelled"]


async def test_retrying_a_child_revives_the_parent_that_it_failed(
    http: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    kurly, relay = desk_on("kurly"), Relay(desk.transitions)
    await waiting_parent(desk, "kurly.c", fails=1)
    await relay.deliver(desk.keys)
    (child,) = await kurly.claim()
    await kurly.fail(child)
    await relay.deliver(kurly.keys)
    (parent,) = await desk.claim()
    error = b',"error":{"type":"ChildFailed","message":"kurly.c failed"}'
    await desk.transitions.fail(desk.keys, "a", parent.nonce, Again(0, 0, 100), error)
    assert (await http.post("/api/jobs/kurly.c/retry")).status_code == 202
    assert (await desk.record("a")).state == "awaiting"


async def test_a_tree_is_accepted_whole_or_not_at_all(http: httpx2.AsyncClient, store: Store) -> None:
    tree = {"platform": "research", "kind": "drill", "id": "root", "children": [LEAF, {**LEAF, "children": [LEAF]}]}
    answer = await http.post("/api/flows", json=tree)
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert (body["jobId"], len(body["children"])) == ("research.root", 2)
    assert answer.headers["location"] == "/api/jobs/research.root"
    again = await http.post("/api/flows", json=tree)
    assert (again.json(), again.headers["idempotency-replayed"]) == (body, "true")
    other = {**tree, "children": [LEAF]}
    async with untouched(store):
        assert problem_of(await http.post("/api/flows", json=other), 409, "OTHER_BODY")
        for path, wrong in (
            ("children[1].children[0].platform", {**LEAF, "platform": "nowhere"}),
            ("children[1].children[0].colour", {**LEAF, "colour": 1}),
            ("children[1].children[0].args.steps", {**LEAF, "args": {"steps": "many"}}),
            ("children[1].children[0].id", {**LEAF, "id": "own"}),
        ):
            bad = {**tree, "id": "other", "children": [LEAF, {**LEAF, "children": [wrong]}]}
            assert problem_of(await http.post("/api/flows", json=bad), 422, "WRONG_FIELD")["field"] == path
        deep: dict[str, Any] = LEAF
        for _ in range(20):
            deep = {**LEAF, "children": [deep]}
        assert "20 levels" in problem_of(await http.post("/api/flows", json=deep), 422, "WRONG_FIELD")["detail"]


@pytest.mark.parametrize("hidden", ["research"])
async def test_a_key_sees_and_submits_nothing_of_other_platforms(
    locked: httpx2.AsyncClient, desk_on: Callable[[str], Desk], hidden: str
) -> None:
    kurly = desk_on("kurly")
    await waiting_parent(kurly, "kurly.b", f"{hidden}.c")
    page = await locked.get("/api/jobs/kurly.a/flow", headers=shown(SHOPS))
    assert [child["jobId"] for child in page.json()["data"]["children"]] == ["kurly.b"]
    tree = {**LEAF, "children": [{**LEAF, "platform": hidden}]}
    answer = await locked.post("/api/flows", json=tree, headers=shown(SHOPS))
    assert problem_of(answer, 403, "PLATFORM_FORBIDDEN")
