"""drill can kill a worker on command: a gateway with keys accepts it only where that is allowed."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tailrace.gateway.application import TABLE
from tailrace.gateway.openapi import document
from tailrace.streams.store.connection import Store
from tests.gateway.documented import Document
from tests.gateway.gateways import gateway_thread
from tests.gateway.keyrings import SETTING, WHOLE, shown
from tests.support.builders import Desk, untouched

UNSET = {"TAILRACE_DRILL": ""}  # the tests of other things set it
DRILL = {"platform": "kurly", "kind": "drill"}
SCHEDULES = "/api/platforms/kurly/schedules"
DETAIL = "drill is switched off on this gateway; TAILRACE_DRILL=on allows it"


@pytest.fixture
async def shut(valkey_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway with keys without a setting about drills."""
    with gateway_thread(valkey_url, {"TAILRACE_API_KEYS": SETTING, **UNSET}) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=20, verify=False, headers=shown(WHOLE)) as http:
            yield http


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/jobs", DRILL, "kind"),
        ("/api/v2/workflows/execute", {"workflow_id": "drill", "params": {"platform": "kurly"}}, "workflow_id"),
        (SCHEDULES, {"name": "often", "kind": "drill", "every_seconds": 60}, "kind"),
        (f"{SCHEDULES}/often", {"kind": "drill", "every_seconds": 60}, "kind"),
    ],
)
async def test_every_route_refuses_a_drill_that_is_switched_off(
    shut: httpx2.AsyncClient, store: Store, path: str, body: dict[str, Any], field: str
) -> None:
    async with untouched(store):
        answer = await shut.post(path, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == (422, "WRONG_FIELD", field)
    assert problem["detail"] == f"{field}: {DETAIL}"


async def test_a_bulk_refuses_its_drills_only(shut: httpx2.AsyncClient) -> None:
    answer = (await shut.post("/api/jobs/bulk", json={"jobs": [DRILL, {**DRILL, "kind": "scan"}]})).json()
    assert (answer["accepted"], answer["refused"]) == (1, 1)
    assert answer["jobs"][0]["error"]["detail"] == f"kind: {DETAIL}"


async def test_a_drill_that_was_accepted_before_can_be_retried(shut: httpx2.AsyncClient, store: Store) -> None:
    desk = Desk(store, "kurly")
    for key in ("a", "b"):
        await desk.fail(await desk.start(key))
    assert (await shut.post("/api/jobs/kurly.a/retry")).status_code == 202
    assert (await shut.post("/api/platforms/kurly/replay", json={"kind": "drill"})).json() == {"replayed": 1, "left": 0}


async def test_a_session_names_the_kinds_that_are_accepted(shut: httpx2.AsyncClient, http: httpx2.AsyncClient) -> None:
    kinds = ["research", "scan", "make-plan", "process-material"]
    assert (await shut.get("/api/session")).json()["data"]["kinds"] == kinds
    assert (await http.get("/api/session")).json()["data"]["kinds"] == [*kinds, "drill"]


async def test_a_gateway_without_keys_can_refuse_drills_too(valkey_url: str) -> None:
    with gateway_thread(valkey_url, {"TAILRACE_DRILL": "off"}) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=20, verify=False) as http:
            assert (await http.post("/api/jobs", json=DRILL)).status_code == 422
            assert (await http.post("/api/jobs", json={**DRILL, "kind": "scan"})).status_code == 202


async def test_every_example_of_the_document_works_without_drills(shut: httpx2.AsyncClient) -> None:
    described = Document(document(TABLE, locked=True))
    for route, operation in described.routes.items():
        method, path = route.split()
        taken = described.body(route)
        for example in taken.get("examples", {}).values() if taken and operation["tags"] == ["submit"] else ():
            assert (await shut.request(method, path, json=example["value"])).status_code == 202, route
    for example in (described.body("POST /api/platforms/{platform}/schedules") or {})["examples"].values():
        assert (await shut.post(SCHEDULES, json=example["value"])).status_code == 200
