"""The lanes of a job: time without work is cut, work keeps its proportions, and every loss looks like one."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Route

from tests.page.visitors import Visitor
from tests.support.builders import forge
from tests.support.deployment import Deployment

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
WIDTHS = """[...document.querySelectorAll('.lane')].map((lane) => [...lane.querySelectorAll('.step, .tail')]
    .reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) / lane.querySelector('.track').offsetWidth)"""


class Told:
    """The history of one job, told to the page by the test."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.frames: list[str] = []

    def add(self, seconds: float, attempt: int | None, status: str, step: int | None = None, **more: Any) -> None:
        number = len(self.frames) + 1
        time = (BEGAN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = forge(self.job, number, attempt, status, step, time=time, **more)
        self.frames.append(f"id: {number}-1700000000000000\ndata: {event.decode()}\n\n")

    async def answer(self, route: Route) -> None:
        body = "".join(self.frames) + "event: end\ndata: {}\n\n"
        await route.fulfill(headers={"Content-Type": "text/event-stream"}, body=body)


@pytest.fixture
async def told(standing: Deployment, visitor: Visitor) -> Told:
    told = Told(await standing.submit("ably", steps=1))
    await visitor.page.route("**/research/stream/**", told.answer)
    return told


async def opened(standing: Deployment, visitor: Visitor, told: Told, state: str) -> None:
    (gateway,) = standing.gateways
    await visitor.open(f"{gateway.url}/jobs/{told.job}")
    await visitor.state(state)


async def test_a_job_that_is_retried_hours_later_shows_its_work(
    standing: Deployment, visitor: Visitor, told: Told
) -> None:
    error = {"type": "ValueError", "message": "no"}
    told.add(0, None, "queued")
    told.add(0, 1, "started")
    told.add(4, 1, "progress", 1, of=2)
    told.add(10, 1, "failed", error=error)
    told.add(7210, 1, "reopened", by="ann")
    told.add(7211, 2, "started")
    told.add(7231, 2, "completed")
    await opened(standing, visitor, told, "completed")
    first, second = await visitor.ask(WIDTHS)
    assert first > 0.2, "an attempt of ten seconds is a sliver"
    assert second == pytest.approx(2 * first, rel=0.03), "work does not keep its proportions"
    assert await visitor.page.locator(".lane .break").count() == 2, "the cut is not seen in each lane"
    await visitor.sees(".resting", "retried after 2 h 00 min")
    await visitor.sees(".facts", re.compile("took 30 s"))


async def test_long_pauses_before_retries_leave_room_for_the_work(
    standing: Deployment, visitor: Visitor, told: Told
) -> None:
    told.add(0, None, "queued")
    for attempt in range(1, 6):
        at = 3600.0 * attempt
        retry_at = (BEGAN + timedelta(seconds=at + 3600)).isoformat().replace("+00:00", "Z")
        told.add(at, attempt, "started")
        if attempt < 5:
            told.add(at + 2, attempt, "retrying", error={"type": "E", "message": "m"}, retryAt=retry_at)
    told.add(3600 * 5 + 8, 5, "completed")
    await opened(standing, visitor, told, "completed")
    widths = await visitor.ask(WIDTHS)
    assert sum(widths) > 0.6
    assert widths[-1] == pytest.approx(4 * widths[0], rel=0.05)
    await visitor.sees(".facts", re.compile("took 16 s"))


async def test_the_loss_that_ends_a_job_is_drawn_as_a_loss(standing: Deployment, visitor: Visitor, told: Told) -> None:
    told.add(0, None, "queued")
    for attempt in (1, 2, 3):
        told.add(20 * attempt, attempt, "started")
        told.add(20 * attempt + 1, attempt, "progress", 1, of=2)
        if attempt < 3:
            told.add(20 * attempt + 12, attempt, "superseded", reason="lost")
    told.add(72, 3, "failed", reason="lost", error={"type": "WorkerLost", "message": "3 attempts lost their worker"})
    await opened(standing, visitor, told, "failed")
    assert [(name, tone) for name, tone, _ in await visitor.lanes()] == [
        ("attempt 1", "lost"),
        ("attempt 2", "lost"),
        ("attempt 3", "fail"),
    ]
    assert await visitor.page.locator(".lane.broken .tail.lost").count() == 3
    await visitor.sees(".lane.fail .tail", "silent for 11 s")
    await visitor.sees(".lane-verdict", "failed: worker lost · 12 s")
    hatched = "[...document.querySelectorAll('.step')].map((step) => getComputedStyle(step).backgroundImage !== 'none')"
    assert await visitor.ask(hatched) == [True] * 3
