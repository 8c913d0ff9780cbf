"""Watching a job in a real browser: whatever happens to its workers, its gateway and its store, each event once."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Route, expect

from tailrace.ops.up.own_store import OwnStore
from tests.page.byhand import JobByHand
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.builders import forge
from tests.support.deployment import Deployment


async def test_a_takeover_is_two_lanes_one_history_and_a_grey_line(standing: Deployment, visitor: Visitor) -> None:
    """The worker is frozen in the middle of a step; thawed, it reports that step before it hears anything."""
    (gateway,) = standing.gateways
    first = await standing.consumer("material-processing")
    platform = f"{gateway.url}/api/platforms/material-processing"
    await standing.http.post(f"{platform}/pause")
    job = await standing.submit("material-processing", steps=4, seconds=0.5, block="sleep", result={"sum": 42})
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("waiting")
    await standing.http.post(f"{platform}/resume")
    await standing.reached(job, 1)
    standing.start_consumer("material-processing")  # by the time the first one is lost, it is there
    await standing.reached(job, 2)
    first.freeze()
    await expect(visitor.page).to_have_title(re.compile(r"^(50|75) % · "))
    await visitor.sees(".fenced", f"fenced: later writes by {first.owner} are refused")
    first.thaw()
    seen = await standing.ended(job)
    await visitor.state("completed")
    await visitor.has_shown(seen)
    (name, tone, steps), last = await visitor.lanes()
    assert (name, tone) == ("attempt 1", "lost")
    assert steps == ["1", "2", "3"][: len(steps)]
    assert last == ("attempt 2", "done", ["1", "2", "3", "4"])
    await visitor.sees(".lane-verdict", "superseded by 2: worker lost")
    await visitor.sees(".job-facts pre", '"sum": 42')
    await visitor.sees("#link-text", "ended")
    await visitor.sees(".fenced", re.compile(rf"^ignored after takeover: \d writes? by {first.owner} \(fenced\)$"))
    assert sum("/research/stream/" in url for url in visitor.requests) == 1


async def test_a_job_that_waits_says_why_and_a_step_opens_what_it_said(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    first = await standing.submit("kurly", steps=500, seconds=0.2, text="a page")
    await standing.reached(first, 1)
    jobs = [await standing.submit("kurly", steps=1, seconds=0.01) for _ in range(2)]
    page = visitor.page
    await visitor.open(f"{gateway.url}/jobs/{jobs[1]}")
    await visitor.sees(".why-waiting", "2nd in the queue")
    await expect(page.locator(".why-waiting a").first).to_have_attribute("href", f"/jobs/{first}")
    await standing.http.post(f"{gateway.url}/api/jobs/{first}/cancel")
    await visitor.state("completed")
    await expect(page.locator(".why-waiting")).to_have_count(0)
    await visitor.open(f"{gateway.url}/jobs/{first}")
    await page.locator(".step").first.click()
    await visitor.sees(".events pre", '"message": "a page"')
    clock = await page.locator(".events time").first.inner_text()
    await page.keyboard.press("u")
    await expect(page.locator("#zone")).to_have_text("UTC")
    event = (await standing.history(first))[0]
    assert await page.locator(".events time").first.inner_text() == event.time[11:23]
    await page.keyboard.press("u")
    assert await page.locator(".events time").first.inner_text() == clock


async def test_a_store_that_restarts_is_not_noticed(frail: tuple[OwnStore, Deployment], visitor: Visitor) -> None:
    store, deployment = frail
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumer("research"))
    job = await deployment.submit("research", steps=6, seconds=0.4)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.sees(".events .text", "2 of 6")
    visitor.outage = True
    store.kill()
    store.start()
    await visitor.state("completed")
    await visitor.has_shown(await deployment.history(job))


async def test_a_gateway_that_dies_is_found_again(
    deployment: Deployment, by_hand: Callable[[int], Awaitable[JobByHand]], visitor: Visitor
) -> None:
    gateway = await deployment.gateway()
    job = await by_hand(6)
    await job.shows(1, 1)
    await visitor.open(f"{gateway.url}/jobs/{job.id}")
    await visitor.sees(".events .text", "1 of 6")
    visitor.outage = True
    gateway.kill_group()
    await job.shows(2, 4)
    await visitor.sees("#link-text", re.compile("reconnecting|offline"))
    await deployment.gateway(again=gateway)
    await job.shows(5, 6)
    await job.completes()
    history = await deployment.ended(job.id)
    await visitor.state("completed")
    await visitor.has_shown(history)
    streams = [url for url in visitor.requests if "/research/stream/" in url]
    assert all("lastEventId=" in url for url in streams[1:])


@pytest.mark.chaos
@pytest.mark.timeout(150)
async def test_a_gateway_that_hangs_is_noticed(deployment: Deployment, visitor: Visitor) -> None:
    """Nothing breaks such a link, and its pings cannot be heard."""
    gateway = await deployment.gateway()
    await deployment.consumer("research")
    job = await deployment.submit("research", steps=60, seconds=1)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.sees(".events .text", "1 of 60")
    visitor.outage = True
    gateway.freeze()
    await visitor.sees("#link-text", re.compile("reconnecting|offline"), patience_ms=60_000)
    gateway.thaw()
    history = await deployment.ended(job, seconds=90)
    await visitor.state("completed")
    await visitor.has_shown(history)


async def test_a_broken_stream_is_resumed_and_a_reset_one_begins_anew(standing: Deployment, visitor: Visitor) -> None:
    """What a gateway would say, word by word: an event twice, an answer that is no stream, another history."""
    (gateway,) = standing.gateways
    job = await standing.submit("ably", steps=1)

    def events(*events: bytes) -> str:
        ids = [event.split(b'"')[3] for event in events]
        frames = zip(ids, events, strict=True)
        return "".join(f"id: {event_id.decode()}\ndata: {event.decode()}\n\n" for event_id, event in frames)

    queued, started = forge(job, 1, None, "queued"), forge(job, 2, 1, "started")
    other = [forge(job, number, 1, status) for number, status in ((12, "started"), (13, "completed"))]
    answers = [
        (200, events(queued, started, started)),
        (502, "nobody home"),
        (200, "event: reset\ndata: {}\n\n"),
        (200, events(queued, *other) + "event: end\ndata: {}\n\n"),
    ]
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url.partition("?")[2])
        status, body = answers[len(asked) - 1]
        kind = "text/event-stream" if status == 200 else "text/plain"
        await route.fulfill(status=status, headers={"Content-Type": kind}, body=body)

    await visitor.page.route("**/research/stream/**", answer)
    await visitor.page.add_init_script(
        """window.lowest = Infinity; new MutationObserver(() => {
            const rows = document.querySelectorAll('.events [data-id]').length;
            if (rows || window.lowest < Infinity) window.lowest = Math.min(window.lowest, rows);
        }).observe(document, { childList: true, subtree: true })"""
    )
    visitor.outage = True
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("completed")
    assert asked == ["", "lastEventId=2-1700000000000000", "lastEventId=2-1700000000000000", ""]
    assert [event_id.partition("-")[0] for event_id in await visitor.event_ids()] == ["1", "12", "13"]
    assert await visitor.ask("window.lowest") == 2, "the log was empty for a moment"
    visitor.errors = [error for error in visitor.errors if "502" not in error]


async def test_what_a_job_says_is_text_and_nothing_else(standing: Deployment, visitor: Visitor) -> None:
    text = (
        "</script><script>window.struck = 1</script><img src=x onerror='window.struck = 2'>\n\nevent: end\ndata: {}\n\n"
        "id: 9\r\nretry: 1\u2028next\u2029line \x00 nul \x1b[31m \u202e turned \U0001f642 &lt;b&gt; {{7*7}} ${7*7}"
    )
    (gateway,) = standing.gateways
    job = await standing.submit("research", steps=2, seconds=0.05, text=text, result={"<b>": text})
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("completed")
    await visitor.has_shown(await standing.ended(job))
    assert (
        await visitor.ask("[...document.querySelectorAll('.events .message')].map((e) => e.textContent)") == [text] * 2
    )
    labels = await visitor.ask("[...document.querySelectorAll('.step')].map((e) => e.getAttribute('aria-label'))")
    assert all(label.endswith(text) for label in labels)
    await visitor.page.locator(".step").first.hover()
    assert (await visitor.ask("document.querySelector('.readout').textContent")).endswith(text)
    assert await visitor.ask("window.struck") is None
    assert await visitor.ask("document.querySelectorAll('main script, main img').length") == 0


async def test_a_job_that_is_not_there_is_said_so(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    visitor.outage = True
    await visitor.open(f"{gateway.url}/jobs/research.<b>none")
    await expect(visitor.page.locator(".empty")).to_contain_text("no job research.<b>none", timeout=PATIENCE_MS)
    await visitor.sees("#link-text", "connected")
    visitor.errors = [error for error in visitor.errors if "404" not in error]
