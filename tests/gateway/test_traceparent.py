"""The header `traceparent` of a submission: the job carries it, and it never makes a request another one."""

from typing import Any

import httpx2
import pytest

from tailrace.streams.options import handed_options
from tailrace.streams.replies import read_record
from tests.support.builders import Desk

ONE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
JOB = {"platform": "research", "kind": "scan", "id": "a"}


async def carried(desk: Desk) -> str | None:
    record = await read_record(desk.store, desk.keys, "a")
    return handed_options(record.options).traceparent


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs", JOB),
        ("/api/jobs/bulk", {"jobs": [JOB]}),
        ("/api/flows", {**JOB, "children": [{"platform": "research", "kind": "scan"}]}),
        ("/research/start", {"query": "tides", "jobId": "a"}),
    ],
)
async def test_every_submission_takes_it_over(http: httpx2.AsyncClient, desk: Desk, path: str, body: Any) -> None:
    assert (await http.post(path, json=body, headers={"traceparent": ONE})).status_code == 202
    assert await carried(desk) == ONE


async def test_the_same_request_with_another_trace_is_the_same(http: httpx2.AsyncClient, desk: Desk) -> None:
    for trace in (ONE, OTHER, "nonsense"):
        answer = await http.post("/api/jobs", json=JOB, headers={"traceparent": trace})
        assert answer.status_code == 202
        assert answer.headers.get("Idempotency-Replayed") == (None if trace == ONE else "true")
    assert await carried(desk) == ONE


async def test_the_body_goes_before_the_header(http: httpx2.AsyncClient, desk: Desk) -> None:
    await http.post("/api/jobs", json={**JOB, "traceparent": OTHER}, headers={"traceparent": ONE})
    assert await carried(desk) == OTHER
    refused = await http.post("/api/jobs", json={**JOB, "traceparent": "nonsense"})
    assert (refused.status_code, refused.json()["field"]) == (422, "traceparent")
