"""Why a job waits, over HTTP; `tests/functions/test_explain.py` has every reason."""

import re
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.support.builders import Desk
from tests.support.eventually import eventually

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def waiting_of(http: httpx2.AsyncClient, job_id: str) -> dict[str, Any] | None:
    answer = await http.get(f"/api/jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    waiting: dict[str, Any] | None = answer.json()["data"]["waiting"]
    return waiting


async def test_a_waiting_job_says_what_it_waits_for(http: httpx2.AsyncClient, desk_on: Callable[[str], Desk]) -> None:
    desk = desk_on("kurly")
    await desk.submit("a", "b", "c")
    await desk.claim()

    async def is_served() -> dict[str, Any] | None:
        await desk.beat("ann")  # another gateway's look may be half a second old
        waiting = await waiting_of(http, "kurly.c")
        return waiting if waiting and waiting["for"][0]["reason"] == "busy" else None

    assert await eventually("its consumer is seen", is_served) == {
        "position": 2,
        "positionExact": True,
        "for": [
            {
                "reason": "busy",
                "detail": "kurly runs 1 job at a time, and kurly.a is running.",
                "job": "kurly.a",
            },
            {"reason": "ahead", "detail": "1 job stands before it: kurly.b.", "job": "kurly.b"},
        ],
    }
    assert await waiting_of(http, "kurly.a") is None, "it runs"


async def test_a_pause_is_told_with_whoever_asked_for_it(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    assert (await http.post("/api/platforms/research/pause", json={"by": "night shift"})).status_code == 200
    waiting = await waiting_of(http, "research.a")
    assert waiting is not None
    paused = waiting["for"][0]
    assert (paused["reason"], paused["by"]) == ("paused", "night shift")
    assert TIME.search(paused["detail"])


async def test_a_delayed_job_tells_until_when(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a", run_at="2099-01-31T09:00:00Z")
    waiting = await waiting_of(http, "research.a")
    assert waiting is not None
    assert (waiting["position"], waiting["positionExact"]) == (None, False)
    assert (waiting["for"][0]["reason"], waiting["for"][0]["until"]) == ("delay", "2099-01-31T09:00:00.000Z")


@pytest.mark.parametrize("end", ["complete", "fail"])
async def test_an_ended_job_waits_for_nothing(http: httpx2.AsyncClient, desk: Desk, end: str) -> None:
    await getattr(desk, end)(await desk.start("a"))
    assert await waiting_of(http, "research.a") is None


async def test_a_platform_that_is_corrupt_does_not_hide_why_others_wait(
    http: httpx2.AsyncClient, desk: Desk, desk_on: Callable[[str], Desk]
) -> None:
    await desk.submit("a")
    await desk.store.command("SET", desk_on("kurly").keys["leases"], "x")
    assert await waiting_of(http, "research.a") is not None


async def test_a_corrupt_line_hides_no_job(http: httpx2.AsyncClient, desk: Desk) -> None:
    await desk.submit("a")
    await desk.store.command("SET", desk.keys.front("normal"), "x")
    assert await waiting_of(http, "research.a") is None
