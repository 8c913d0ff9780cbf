"""Manners of the page in a real browser: how often it asks, what it shows at once, and how it says times."""

import re
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from playwright.async_api import Route, expect

from tests.gateway.gateways import GatewayProcess
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment

KEY = "somebodys-long-key-0123"


async def asked_in(visitor: Visitor, seconds: float) -> list[str]:
    before = len(visitor.requests)
    await anyio.sleep(seconds)
    return visitor.requests[before:]


@pytest.mark.chaos
async def test_an_outage_is_asked_about_less_and_less(deployment: Deployment, visitor: Visitor) -> None:
    gateway = await deployment.gateway()
    await visitor.open(gateway.url)
    await visitor.sees("#link-text", "live")
    await expect(visitor.page.locator(".platforms")).to_be_visible(timeout=PATIENCE_MS)
    await visitor.ask("Date.now = ((now) => () => now() + 20_000)(Date.now)")  # its stream is an old one
    visitor.outage = True
    gateway.kill_group()
    await visitor.sees("#link-text", re.compile("reconnecting|offline"))
    asked = await asked_in(visitor, 4)
    assert sum("/api/events" in url for url in asked) in range(1, 5)
    assert len(asked) < 24, asked
    await deployment.gateway(again=gateway)
    await visitor.sees("#link-text", "live")


@pytest.mark.chaos
async def test_who_is_signed_out_asks_for_nothing(valkey_url: str, visitor: Visitor) -> None:
    """One refusal, and quiet until a person signs in; also when a session ends while the page is open."""
    with GatewayProcess(valkey_url, {"TAILRACE_API_KEYS": KEY}) as gateway:
        await visitor.open(gateway.url)
        await expect(visitor.page.locator("#signin")).to_be_visible(timeout=PATIENCE_MS)
        assert sum("/api/" in url for url in visitor.requests) == 1
        assert await asked_in(visitor, 5) == []
        await visitor.page.fill("#signin-key", KEY)
        await visitor.page.keyboard.press("Enter")
        await visitor.sees(".platforms", "research")
        await visitor.page.context.clear_cookies()
        await expect(visitor.page.locator("#signin")).to_be_visible(timeout=PATIENCE_MS)
        await asked_in(visitor, 0.5)  # what was on its way
        assert await asked_in(visitor, 2.5) == []
        visitor.errors = [error for error in visitor.errors if "401" not in error]
        await visitor.open("about:blank")


async def test_rows_are_there_before_any_worker_was_heard(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    (worker,) = await standing.beats("research")
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    for slow in ("**/api/platforms", "**/api/platforms/research", "**/api/v2/workers/status"):
        await visitor.page.route(slow, hold)
    await visitor.open(gateway.url)
    await visitor.sees(".platforms tr", "research")
    await expect(visitor.page.get_by_text("no worker")).to_have_count(0)
    await visitor.page.unroute_all()  # and whatever was held goes on
    await visitor.sees(".workers tbody tr", worker)
    await visitor.sees(".platforms tr", "no worker")


async def test_a_day_that_is_not_today_is_named(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    body = {"platform": "ably", "kind": "drill", "id": "far", "delay_seconds": 1000 * 86400}
    assert (await standing.http.post(f"{gateway.url}/api/jobs", json=body)).status_code == 202
    await standing.http.post(f"{gateway.url}/api/platforms/ably/pause", json={"by": "somebody"})
    due = f"{datetime.now(UTC) + timedelta(days=1000):%Y-%m-%d} "
    await visitor.open(f"{gateway.url}/jobs/ably.far")
    await visitor.sees(".why-waiting li", re.compile(rf"{due}\d\d:\d\d:\d\d, in (1000 d|999 d 23 h)"))
    await visitor.sees(".why-waiting li", "paused by somebody since")
    assert "Z" not in await visitor.page.locator(".why-waiting").inner_text()
    await visitor.sees(".events .dim", f"until {due}")
    await visitor.sees(".axis span", re.compile(r"^\d+ d$"))
    later = datetime.now(UTC) + timedelta(days=3)
    await visitor.page.clock.set_fixed_time(later)
    await visitor.open(f"{gateway.url}/jobs/ably.far")
    await visitor.sees(".events .day", f"{datetime.now(UTC):%Y-%m-%d}")


async def test_a_label_that_does_not_fit_is_left_out(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("research", steps=60, seconds=0.01)
    await standing.ended(job)
    await visitor.page.set_viewport_size({"width": 390, "height": 844})
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("completed")
    cut = await visitor.ask(
        """[...document.querySelectorAll('.step')].filter((step) => {
            const [box, label] = [step, step.firstChild].map((each) => each.getBoundingClientRect());
            const seen = label.top < box.bottom - 1;
            return seen && (label.left < box.left - 1 || label.right > box.right + 1);
        }).length"""
    )
    assert cut == 0
    assert await visitor.page.locator(".step").count() == 60


async def test_a_job_is_found_by_its_key_alone(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    for platform, key in (("zigzag", "takeover"), ("zigzag", "twin"), ("research", "twin")):
        body = {"platform": platform, "kind": "drill", "id": key}
        answer = await standing.http.post(f"{gateway.url}/api/jobs", json=body)
        assert answer.json()["jobId"] == f"{platform}.{key}"
    page = visitor.page

    async def find(words: str) -> None:
        await page.fill("#find-id", words)
        await page.press("#find-id", "Enter")

    await visitor.open(gateway.url)
    await find("nowhere")
    await visitor.sees("#said", "No platform has a job with the key nowhere.")
    await find("twin")
    await visitor.sees("#found a", "research.twin")
    await page.keyboard.press("Escape")
    await find("takeover")
    await visitor.state("waiting")
    assert page.url == f"{gateway.url}/jobs/zigzag.takeover"
    visitor.errors = [error for error in visitor.errors if "404" not in error]


async def test_a_state_that_there_is_not_is_said_so(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    await visitor.open(f"{gateway.url}/?platform=kurly&state=foo")
    await visitor.sees(".empty", "“foo” is not a state of jobs.")
    await visitor.page.click("text=waiting")
    await visitor.sees(".empty", "No job of kurly is waiting.")
