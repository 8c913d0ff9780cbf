"""Without the built-in platforms, kinds and routes: nothing of them is left where a client looks."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tailrace.gateway.application import TABLE
from tailrace.gateway.openapi import document
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers.kinds import KINDS
from tailrace.producers.platforms import BUILT_IN
from tests.gateway.gateways import GatewayProcess

OURS = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in {*BUILT_IN, *KINDS} - {"default", "research"}))
ROUTES = ["/research/start", "/api/plans", "/api/materials/complete-upload", "/api/v2/workflows/execute"]


@pytest.fixture
async def own(frail: OwnStore, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway that has one platform, of the user."""
    config = tmp_path / "tailrace.toml"
    config.write_text("builtins = false\n[platforms.mail]\nattempts = 5\n")
    with GatewayProcess(frail.url, {"TAILRACE_CONFIG": str(config)}) as process:
        async with httpx2.AsyncClient(base_url=process.url, timeout=20, verify=False) as client:
            yield client


async def test_no_answer_names_a_built_in_platform_or_kind(own: httpx2.AsyncClient) -> None:
    for path in ("/", "/openapi.json", "/metrics", "/api/platforms", "/api/v2/jobs/running", "/api/session"):
        answer = await own.get(path)
        assert answer.status_code == 200
        assert not OURS.search(answer.text), (path, OURS.search(answer.text))
    assert [each["platform"] for each in (await own.get("/api/platforms")).json()["data"]] == ["mail"]
    refused = await own.post("/api/jobs", json={"platform": "kurly", "kind": "scan"})
    assert refused.status_code == 422
    assert "known are mail;" in refused.json()["detail"]


async def test_the_routes_of_built_in_kinds_are_gone(own: httpx2.AsyncClient) -> None:
    for path in ROUTES:
        assert (await own.post(path, json={"query": "tides"})).status_code == 404, path
    said = (await own.get("/openapi.json")).json()
    assert {path for path, item in document(TABLE, locked=False)["paths"].items() if path not in said["paths"]} == set(
        ROUTES
    )
    OpenAPIV31SpecValidator(json.loads(json.dumps(said))).validate()
    for reference in set(re.findall(r'"\$ref": ?"#/components/([^"]+)"', json.dumps(said))):
        kind, name = reference.split("/")
        assert name in said["components"][kind], reference


async def test_a_kind_of_a_built_in_name_is_the_users_own_and_its_history_is_served(own: httpx2.AsyncClient) -> None:
    answer = await own.post("/api/jobs", json={"platform": "mail", "kind": "research", "args": {"to": "ada"}})
    assert answer.status_code == 202, answer.text
    history = await own.get(f"/research/history/{answer.json()['jobId']}")
    assert [event["status"] for event in history.json()] == ["queued"]
