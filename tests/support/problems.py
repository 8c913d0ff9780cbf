"""Refusals of a gateway as problem documents."""

from typing import Any

import httpx2

JSON = {"Content-Type": "application/json"}


def problem_of(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == "about:blank"
    assert problem["title"]
    assert problem["detail"]
    assert len(answer.content) < 2000, "a refusal does not send the request back"
    return problem
