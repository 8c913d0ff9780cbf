"""The dashboard is the one that is committed, and its queries are PromQL that finds data."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tailrace.ops.monitoring import dashboard, rule_file
from tests.conftest import LeaveOut
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.linters import OF_CI
from tests.support.ports import free_port
from tests.support.prometheus import Prometheus, Webhook, installed

MISSING = "there is no Prometheus on this machine (Debian: prometheus, prometheus-alertmanager)"


def queries() -> Iterator[str]:
    """Every query of the committed dashboard, as Grafana fills it in."""
    for panel in json.loads(dashboard.FILE.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "15s").replace("$platform", ".*")


def test_the_file_is_the_one_that_the_code_writes() -> None:
    assert dashboard.FILE.read_text() == dashboard.written(), "run `python -m tailrace.ops.monitoring.dashboard`"


def test_no_panel_covers_another() -> None:
    places = [panel["gridPos"] for panel in dashboard.panels()]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < dashboard.WIDTH


def test_every_query_is_promql(tmp_path: Path, leave_out: LeaveOut) -> None:
    if not installed():
        leave_out(MISSING)
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    told = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert f"{len(rules)} rules found" in told.stdout


READ_AND_WRITE = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
register_default_plugins()
print(JSONEncoder().encode(Dashboard.from_json(json.load(sys.stdin))))
"""


def kept(given: Any, read: Any) -> bool:
    """Whether all that was written was read as it stands; what has a default may come on top."""
    if isinstance(given, dict) and isinstance(read, dict):
        return all(name in read and kept(value, read[name]) for name, value in given.items())
    if isinstance(given, list) and isinstance(read, list):
        return len(given) == len(read) and all(map(kept, given, read))
    return bool(given == read)


def test_the_dashboard_is_by_the_schema_of_grafana(leave_out: LeaveOut) -> None:
    """Grafana's own types for Python read the file and lose nothing of it; a name they do not know, they drop."""
    python = str(OF_CI / "python")
    if not list(OF_CI.parent.glob("lib/*/site-packages/grafana_foundation_sdk")):
        leave_out("there is no grafana-foundation-sdk in .venv/linters")

    def read(dashboard: Any) -> Any:
        words, told = [python, "-c", READ_AND_WRITE], json.dumps(dashboard)
        return json.loads(subprocess.run(words, input=told, capture_output=True, text=True, check=True).stdout)

    given = json.loads(dashboard.FILE.read_text())
    assert kept(given, read(given))
    given["panels"][1]["fieldConfgi"] = given["panels"][1].pop("fieldConfig")
    assert not kept(given, read(given))


@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_a_real_prometheus_finds_data_and_tells_of_a_dead_worker(
    deployment: Deployment, tmp_path: Path, leave_out: LeaveOut
) -> None:
    if not installed():
        leave_out(MISSING)
    gateway, ports = await deployment.gateway(), [free_port(), free_port()]
    first = await deployment.consumer("research", TAILRACE_METRICS_PORT=str(ports[0]))
    await deployment.consumer("kurly", TAILRACE_METRICS_PORT=str(ports[1]))
    jobs = {"tailrace-gateway": [gateway.url[7:]], "tailrace-consumers": [f"127.0.0.1:{port}" for port in ports]}
    async with Webhook().listening() as webhook, httpx2.AsyncClient(timeout=10) as http:
        with Prometheus(tmp_path, jobs, rule_file.FILE, webhook).running() as prometheus:
            await every_query_finds_data(deployment, prometheus, gateway.url, http)
            assert webhook.alerts == []

            first.kill_group()
            await heard(webhook, "TailraceWorkerDead", "firing", platform="research")
            await heard(webhook, "TailraceWorkerDead", "firing", instance=jobs["tailrace-consumers"][0])
            assert not webhook.heard("TailraceWorkerDead", "firing", platform="kurly")

            await deployment.consumer("research", TAILRACE_METRICS_PORT=str(ports[0]))
            await heard(webhook, "TailraceWorkerDead", "resolved", platform="research")
            await heard(webhook, "TailraceWorkerDead", "resolved", instance=jobs["tailrace-consumers"][0])


async def every_query_finds_data(
    deployment: Deployment, prometheus: Prometheus, gateway: str, http: httpx2.AsyncClient
) -> None:
    """While jobs come, run and fail, and a client watches."""

    async def work() -> None:
        while True:
            await deployment.submit("research", steps=2, seconds=0.2)
            await deployment.submit("kurly", steps=1, seconds=0.1, fail_times=1)
            await asyncio.sleep(0.5)

    async def watch() -> None:
        async with http.stream("GET", f"{gateway}/api/events", timeout=None) as stream:
            async for _ in stream.aiter_lines():
                pass

    tasks = [asyncio.create_task(work()), asyncio.create_task(watch())]
    try:
        empty = set(queries())

        async def all_found() -> bool:
            for query in list(empty):
                try:
                    if await prometheus.query(http, query):
                        empty.discard(query)
                except httpx2.TransportError:  # it starts
                    await asyncio.sleep(0.5)
            await asyncio.sleep(0.5)
            return not empty

        try:
            await eventually("every query finds data", all_found, seconds=60)
        except AssertionError:
            raise AssertionError(f"these queries found nothing: {sorted(empty)}") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def heard(webhook: Webhook, name: str, status: str, **labels: str) -> None:
    async def look() -> bool:
        return webhook.heard(name, status, **labels)

    await eventually(f"{name} is {status} for {labels}", look, seconds=60)
