"""The routes that submit jobs, each with a body, another body and the name of its id."""

from typing import Any

import httpx2

DRILL = {"platform": "research", "kind": "drill", "args": {"steps": 1}}

ROUTES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "/api/jobs": (DRILL, {**DRILL, "args": {"steps": 2}}, "id"),
    "/research/start": ({"query": "tides"}, {"query": "moons"}, "jobId"),
    "/api/v2/workflows/execute": (
        {"workflow_id": "daily", "params": {"platform": "research"}},
        {"workflow_id": "weekly", "params": {"platform": "research"}},
        "jobId",
    ),
    "/api/plans": ({"userId": "u", "goal": "swim"}, {"userId": "u", "goal": "dive"}, "jobId"),
    "/api/materials/complete-upload": ({"materialId": "m"}, {"materialId": "n"}, "jobId"),
}


def id_of(answer: httpx2.Response) -> str:
    body = answer.json()
    found: str = body["data"]["job_id"] if "data" in body else body["jobId"]
    return found
