"""What the page shows while the store or the gateway is away: one moment, that it is old, and why."""

import asyncio
import os
import re
import signal

from playwright.async_api import Route, expect

from tailrace.ops.up.own_store import OwnStore
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment
from tests.support.processes import GatewayProcess

AGES = (
    """[...document.querySelectorAll('.job .age, .w-beat .age, .lane-verdict, .c-oldest')].map((e) => e.textContent)"""
)
STALE = re.compile(r"^showing (\d\d:\d\d:\d\d); the store does not answer$")


async def running_job(deployment: Deployment) -> tuple[GatewayProcess, str]:
    """A gateway, and a job that runs for longer than a test."""
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumer("research"))
    job = await deployment.submit("research", steps=500, seconds=0.2)
    await deployment.started(job)
    return gateway, job


async def stands_still(visitor: Visitor) -> None:
    """Nothing that tells an age goes on, nothing turns amber, and nothing can be done."""
    before = await visitor.ask(AGES)
    await asyncio.sleep(2.5)  # an age that goes on would show it by now
    assert await visitor.ask(AGES) == before
    assert before
    assert await visitor.page.locator("main .tone-silent:not(.w-lag), .lane.silent").count() == 0
    enabled = await visitor.ask(
        "[...document.querySelectorAll('[class*=needs-]')].filter((e) => e.tagName === 'BUTTON' && !e.disabled).length"
    )
    assert enabled == 0


async def test_without_the_store_the_page_shows_one_moment_and_says_so(
    frail: tuple[OwnStore, Deployment], visitor: Visitor
) -> None:
    store, deployment = frail
    gateway, _ = await running_job(deployment)
    await visitor.open(gateway.url)
    await visitor.sees(".workers tbody tr", "research")
    await visitor.sees(".platforms .job", "drill")
    visitor.outage = True
    store.kill()
    await visitor.sees("#stale", STALE)
    await stands_still(visitor)
    await visitor.page.keyboard.press("n")
    await expect(visitor.page.locator("#submit")).to_have_count(0)
    store.start()
    await expect(visitor.page.locator("#stale")).to_be_hidden(timeout=PATIENCE_MS)
    await expect(visitor.page.get_by_role("button", name="pause research")).to_be_enabled(timeout=PATIENCE_MS)


async def test_the_lanes_of_a_job_stand_still_while_nobody_answers(
    frail: tuple[OwnStore, Deployment], visitor: Visitor
) -> None:
    _, deployment = frail
    gateway, job = await running_job(deployment)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("running")
    visitor.outage = True
    gateway.kill_group()
    await visitor.sees("#stale", re.compile("^showing .*; the gateway does not answer$"))
    await stands_still(visitor)


async def test_a_store_that_hangs_is_noticed_though_the_stream_stays_open(
    frail: tuple[OwnStore, Deployment], visitor: Visitor
) -> None:
    store, deployment = frail
    gateway, job = await running_job(deployment)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("running")
    visitor.outage = True
    os.kill(store.pid, signal.SIGSTOP)
    try:
        await visitor.sees("#stale", STALE, patience_ms=40_000)
        await stands_still(visitor)
    finally:
        os.kill(store.pid, signal.SIGCONT)
    await expect(visitor.page.locator("#stale")).to_be_hidden(timeout=PATIENCE_MS)
    await visitor.sees("#link-text", "live")


async def test_a_first_visit_says_what_is_wrong(frail: tuple[OwnStore, Deployment], visitor: Visitor) -> None:
    store, deployment = frail
    gateway = await deployment.gateway()
    job = await deployment.submit("research", steps=1)
    store.kill()
    visitor.outage = True
    for path in ("/", "/?platform=research&state=waiting", f"/jobs/{job}"):
        await visitor.open(gateway.url + path)
        await visitor.sees("#first", "Nothing to show yet: the store does not answer.")
        await expect(visitor.page.locator("#stale")).to_be_hidden()
    store.start()
    await visitor.state("waiting")
    await expect(visitor.page.locator("#first")).to_be_hidden()


async def test_a_part_of_the_page_that_does_not_load_is_said_so(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("ably", steps=1)

    async def refuse(route: Route) -> None:
        await route.abort()

    visitor.outage = True
    await visitor.page.route("**/page/job/actions.js", refuse)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("waiting")
    await visitor.page.get_by_role("button", name="cancel", exact=True).click()
    await visitor.sees("#said", "job/actions.js could not be loaded")
    await visitor.page.route("**/page/job/job.js", refuse)
    await visitor.page.reload()
    await visitor.sees("#first", "A part of this page could not be loaded")


async def test_an_answer_that_cannot_be_read_is_no_answer(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("ably", steps=1)

    async def answer_with_a_page(route: Route) -> None:
        await route.fulfill(status=200, headers={"Content-Type": "text/html"}, body="<p>a proxy's own page</p>")

    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("waiting")
    visitor.outage = True
    await visitor.page.route("**/api/jobs/*/cancel", answer_with_a_page)
    await visitor.page.get_by_role("button", name="cancel", exact=True).click()
    await visitor.confirm("Cancel this job?")
    await visitor.sees("#said", "The gateway did not answer; it is not known whether this was done.")
    await visitor.page.route("**/api/platforms*", answer_with_a_page)
    await visitor.open(gateway.url)
    await visitor.sees("#link-text", re.compile("reconnecting"))
