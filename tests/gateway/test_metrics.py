"""Metrics: what Prometheus reads is what the store holds."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.support.builders import Desk


async def test_metrics_count_what_is_there(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a", "b", "c", "d")
    await desk.submit("later", delay_seconds=60)
    running, failing = await desk.claim("ann", 2)
    await desk.fail(failing)
    await desk.transitions.pause(desk.keys, "somebody")
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    for state, count in {"running": 1, "waiting": 2, "delayed": 1, "failed": 1}.items():
        assert samples["tailrace_jobs", *sorted(("research", state))] == count
    assert samples["tailrace_paused", "research"] == 1
    assert samples["tailrace_paused", "ably"] == 0
    assert samples["tailrace_oldest_waiting_seconds", "research"] >= 0
    assert running.key == "a"
