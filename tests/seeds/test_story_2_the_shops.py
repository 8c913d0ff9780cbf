"""Story 2: one worker per shop. Each shop does one job after the other, no shop waits for another."""

import asyncio
import time
from datetime import datetime
from typing import Any

from tests.support.checker import jumped_the_line, overlaps, unclean
from tests.support.deployment import Deployment
from tests.support.processes import UNHURRIED

WORKER_PLATFORMS = " kurly, ,hwahae ,,"
PRODUCTS = ["p-1", "p-2", "p-3"]
MANY = [f"p-{number}" for number in range(15)]  # so that the first job of a shop runs while we look


async def execute(deployment: Deployment, platform: str, products: list[str] = PRODUCTS) -> str:
    body = {"workflow_id": "daily-scan", "params": {"platform": platform, "product_ids": products}}
    reply = await deployment.http.post(f"{deployment.gateways[0].url}/api/v2/workflows/execute", json=body)
    assert reply.status_code == 202
    answer = reply.json()
    assert answer["success"] is True
    assert answer["data"]["workflow_id"] == "daily-scan"
    assert answer["data"]["platform"] == platform
    deployment.accepted.append(answer["data"]["job_id"])
    return str(answer["data"]["job_id"])


async def running(deployment: Deployment) -> dict[str, Any]:
    reply = await deployment.http.get(f"{deployment.gateways[0].url}/api/v2/jobs/running")
    assert reply.status_code == 200
    answer: dict[str, Any] = reply.json()
    return answer


async def test_each_shop_works_through_its_own_line(deployment: Deployment) -> None:
    starting = deployment.consumers(2, pace=UNHURRIED, WORKER_PLATFORMS=WORKER_PLATFORMS)
    _, workers = await asyncio.gather(deployment.gateway(), starting)
    assert [worker.said("consumer_started")[0]["platforms"] for worker in workers] == ["kurly,hwahae"] * 2
    began = time.monotonic()
    kurly = [await execute(deployment, "kurly", products) for products in (MANY, PRODUCTS, PRODUCTS)]
    hwahae = [await execute(deployment, "hwahae", products) for products in (MANY, PRODUCTS)]
    musinsa = await execute(deployment, "musinsa")  # no consumer serves it: its queue waits, and holds up no other
    await deployment.started(kurly[0])
    await deployment.started(hwahae[0])

    now = await running(deployment)
    data = now["data"]
    assert now == {
        "success": True,
        "data": {"running": data["running"], "queued": data["queued"], "summary": data["summary"]},
    }
    assert data["queued"] == {"kurly": 2, "hwahae": 1, "musinsa": 1}
    assert data["summary"] == {"running_count": 2, "queued_count": 4}
    jobs = {row["platform"]: row for row in data["running"]}
    assert list(jobs["kurly"])[:5] == ["platform", "job_id", "workflow_id", "started_at", "elapsed_seconds"]
    assert jobs["kurly"]["job_id"] == kurly[0]
    assert jobs["hwahae"]["job_id"] == hwahae[0]
    assert jobs["kurly"]["workflow_id"] == "daily-scan"
    assert 0 <= jobs["kurly"]["elapsed_seconds"] <= time.monotonic() - began
    assert datetime.fromisoformat(jobs["kurly"]["started_at"]).tzinfo

    shops = [await deployment.all_ended(shop) for shop in (kurly, hwahae)]
    for histories in shops:
        assert unclean(histories) == []
        assert overlaps(histories) == []
        assert jumped_the_line(histories) == []
    assert overlaps({**shops[0], **shops[1]}), "the two shops worked side by side"
    left = (await running(deployment))["data"]
    assert left == {"running": [], "queued": {"musinsa": 1}, "summary": {"running_count": 0, "queued_count": 1}}
    assert (await deployment.record(musinsa)).attempt == 0
