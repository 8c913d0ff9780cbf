"""A job whose first worker was lost, its visible history, and forged events."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from tests.support.builders import Desk, forge

RACE = ["queued", "started 1", "progress 1 1", "progress 1 2", "superseded 1", "started 2", "progress 2 1"]
END = [*RACE, "progress 2 2", "completed 2"]


async def race(desk: Desk, key: str = "a") -> Callable[[], Awaitable[None]]:
    """A job whose first worker was lost in the middle; the answer ends it."""
    first = await desk.start(key, "ann")
    await desk.report(first, 1)
    await desk.report(first, 2)
    await desk.reclaim(first)
    (second,) = await desk.claim("bob")
    await desk.report(second, 1)

    async def end() -> None:
        await desk.report(second, 2)
        await desk.complete(second, "done")

    return end


def story(events: list[dict[str, Any]]) -> list[str]:
    return [" ".join(str(e[name]) for name in ("status", "attempt", "step") if e[name] is not None) for e in events]


async def history_of(http: httpx2.AsyncClient, key: str = "a", **params: str) -> list[dict[str, Any]]:
    answer = await http.get(f"/research/history/research.{key}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    events: list[dict[str, Any]] = answer.json()
    return events


def forged(key: str, number: int, attempt: int | None, status: str, step: int | None = None, **more: Any) -> bytes:
    return forge(f"research.{key}", number, attempt, status, step, **more)


def forgeries(key: str) -> list[bytes]:
    return [
        forged(key, 8, 2, "progress", 1),
        forged(key, 8, 1, "progress", 3),
        forged(key, 8, 1, "completed"),
        forged(key, 8, 1, "started"),
        forged(key, 8, 2, "started"),
        forged(key, 1, None, "queued"),
        b"",
        b"rubbish",
        b"\xff\x00",
        b"{}",
        forged("other", 8, 2, "progress", 9),
    ]
