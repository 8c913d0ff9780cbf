"""The overview in a real browser: what runs is heard, the last ten minutes are there, workers tell of themselves."""

import asyncio
import re
import socket

from playwright.async_api import Route, expect

from tailrace.consumers.heart.introduction import version
from tests.gateway.gateways import GatewayProcess
from tests.gateway.keyrings import SETTING, VIEWER
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment


async def test_progress_is_heard_on_one_stream_and_never_asked_job_by_job(
    standing: Deployment, visitor: Visitor
) -> None:
    (gateway,) = standing.gateways
    jobs = [await standing.submit("research", steps=100, seconds=0.5) for _ in range(3)]
    for job in jobs:
        await standing.started(job)
    await visitor.open(gateway.url)
    row = visitor.page.locator(".platforms tr").filter(has_text="research")
    await expect(row.locator(".job")).to_have_count(3, timeout=PATIENCE_MS)
    # Between two answers of the gateway nothing but the stream can move a bar.
    visitor.outage = True
    await visitor.page.route("**/api/v2/jobs/running", lambda route: route.abort())
    bar = row.get_by_role("progressbar").first
    before = int(await bar.get_attribute("aria-valuenow") or 0)
    later = re.compile(rf"^({'|'.join(str(n) for n in range(before + 1, 101))})$")
    await expect(bar).to_have_attribute("aria-valuenow", later, timeout=PATIENCE_MS)
    assert sum("/api/events" in url for url in visitor.requests) == 1
    assert not [url for url in visitor.requests if "/api/jobs/" in url]


async def test_workers_tell_where_they_run_and_the_head_names_the_store(
    deployment: Deployment, visitor: Visitor
) -> None:
    gateway, consumer = await asyncio.gather(deployment.gateway(), deployment.consumer("research", "kurly"))
    await visitor.open(gateway.url)
    row = visitor.page.locator(".workers tbody tr").filter(has_text=consumer.owner)
    await expect(row.locator(".w-host")).to_have_text(socket.gethostname(), timeout=PATIENCE_MS)
    await expect(row.locator(".w-version")).to_have_text(str(version()))
    await expect(row.locator(".w-lag")).to_have_text(re.compile(r"\d m?s$"), timeout=PATIENCE_MS)
    await expect(row.locator(".w-memory")).to_have_text(re.compile(r"^\d+ MB$"))
    await expect(visitor.page.locator("#store")).to_have_text(re.compile(r"^store (valkey|redis) \d+\.\d+ · "))
    await expect(visitor.page.locator("#workers-alive")).to_have_text("1 worker", timeout=PATIENCE_MS)
    await row.get_by_role("button", name="restart").click()
    await visitor.confirm(f"Restart {consumer.owner}?")
    await visitor.sees("#said", "Asked 1 worker of kurly to restart.")
    assert await consumer.ended() == 75


async def test_the_last_ten_minutes_are_there_when_the_page_is_opened(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    await standing.submit("ably", steps=1)
    ended = {"completed": [None, None, 6, 2], "failed": [None, None, 0, 9], "cancelled": [None, None, 0, 1]}
    answer = {"everySeconds": 10, "platforms": {"ably": {"depth": [None, 4, 9, 1], **ended}}}

    async def ten_minutes(route: Route) -> None:
        await route.fulfill(json={"data": answer})

    await visitor.page.route("**/api/trends", ten_minutes)
    await visitor.open(gateway.url)
    row = visitor.page.locator(".platforms tr").filter(has_text="ably")
    await expect(row.locator("svg")).to_have_attribute(
        "aria-label", "last 10 min: 8 completed, 9 failed, 1 cancelled; waiting now 1, at most 9", timeout=PATIENCE_MS
    )
    await expect(row.locator(".trend small")).to_have_text("54/min")
    for word, tone in (("completed", "done"), ("failed", "fail"), ("cancelled", "cancel")):
        drawn = await row.locator(f"rect.tone-{tone}").first.evaluate("(bar) => getComputedStyle(bar).fill")
        key = visitor.page.locator(".legend span").filter(has_text=word)
        assert await key.evaluate("(key) => getComputedStyle(key).color") == drawn


async def test_a_job_that_runs_is_counted_before_its_name_is_known(standing: Deployment, visitor: Visitor) -> None:
    """Counts and names come in two answers; a job that starts in between must not be drawn as none."""
    (gateway,) = standing.gateways
    job = await standing.submit("kurly", steps=100, seconds=0.2)
    await standing.started(job)

    async def nothing(route: Route) -> None:
        await route.fulfill(json={"success": True, "data": {"running": [], "queued": {}, "summary": {}}})

    await visitor.page.route("**/api/v2/jobs/running", nothing)
    await visitor.open(gateway.url)
    row = visitor.page.locator(".platforms tr").filter(has_text="kurly")
    await expect(row.locator(".c-running")).to_have_text("1 running", timeout=PATIENCE_MS)
    await standing.http.post(f"{gateway.url}/api/jobs/{job}/cancel")


async def test_what_a_key_may_not_do_is_not_offered(valkey_url: str, visitor: Visitor) -> None:
    with GatewayProcess(valkey_url, {"TAILRACE_API_KEYS": SETTING}) as gateway:
        await visitor.open(gateway.url)
        await visitor.page.fill("#signin-key", VIEWER)
        await visitor.page.keyboard.press("Enter")
        await visitor.sees(".platforms", "ably")
        await expect(visitor.page.locator("#sign-out")).to_be_visible(timeout=PATIENCE_MS)
        await expect(visitor.page.locator("#submit-open")).to_be_hidden()
        await expect(visitor.page.get_by_role("button", name="pause ably")).to_be_hidden()
        await visitor.page.keyboard.press("n")
        await visitor.page.keyboard.press("?")
        await expect(visitor.page.locator("#help")).to_be_visible(timeout=PATIENCE_MS)
        await expect(visitor.page.locator("#help dd").filter(has_text="new job")).to_be_hidden()
        await visitor.page.keyboard.press("Escape")
        await expect(visitor.page.locator("#submit")).to_have_count(0)
        assert await visitor.page.locator(".platforms tbody tr").count() == 1
        assert "MB" not in (await visitor.page.locator("#store").inner_text())
        await visitor.page.click("#sign-out")
        await expect(visitor.page.locator("#signin")).to_be_visible(timeout=PATIENCE_MS)
        await visitor.open("about:blank")
        visitor.errors = [error for error in visitor.errors if "401" not in error]


async def test_every_word_can_be_read_in_light_and_in_dark(standing: Deployment, visitor: Visitor) -> None:
    """Contrast AA: 4.5 to 1 for text, 3 to 1 for the borders of controls; and no animation makes anything faint.

    The front of a long key is left out: it is hidden, and there for copying alone.
    """
    (gateway,) = standing.gateways
    failed = await standing.submit("research", steps=1, seconds=0.01, fail_times=9)
    await standing.submit("musinsa", steps=1)
    await standing.http.post(f"{gateway.url}/api/platforms/musinsa/pause", json={"by": "somebody"})
    for path, selector in (
        (f"/jobs/{failed}", ".lane"),
        ("/", ".w-memory"),
        ("/?platform=musinsa&state=waiting", "td"),
    ):
        await visitor.open(gateway.url + path)
        await expect(visitor.page.locator(selector).last).to_be_visible(timeout=PATIENCE_MS)
        await visitor.page.emulate_media(color_scheme="light")
        assert await visitor.ask(TOO_FAINT) == [], path
        assert await visitor.ask(FAINT_BORDERS) == [], path
        await visitor.page.emulate_media(color_scheme="dark")
        assert await visitor.ask(TOO_FAINT) == [], path
        assert await visitor.ask(FAINT_BORDERS) == [], path
        assert await visitor.ask(FADING) == [], path


CONTRAST = """
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (behind, colour) => {
    const [one, other] = [light(paint(behind)), light(paint([...behind, colour]))].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  };
  const behindOf = (element) => {
    const behind = [];
    for (let e = element; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
    return behind;
  };
"""

TOO_FAINT = f"""(() => {{{CONTRAST}
  const faint = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {{
    const element = text.parentElement;
    if (!text.data.trim() || !element.checkVisibility({{ opacityProperty: true }})) continue;
    if (element.closest("#said, noscript, .unseen, .key s, :disabled")) continue;
    const ratio = contrast(behindOf(element), getComputedStyle(element).color);
    if (ratio < 4.5) faint.add(`${{element.className}}: ${{text.data.trim().slice(0, 30)}} ${{ratio.toFixed(2)}}`);
  }}
  return [...faint];
}})()"""

FAINT_BORDERS = f"""(() => {{{CONTRAST}
  const faint = new Set();
  for (const control of document.querySelectorAll("button, .button, input, select, textarea")) {{
    const style = getComputedStyle(control);
    const none = style.borderTopWidth === "0px" || /, 0\\)$/.test(style.borderTopColor);
    if (none || !control.checkVisibility() || control.disabled) continue;
    const ratio = contrast(behindOf(control.parentElement), style.borderTopColor);
    if (ratio < 3) faint.add(`${{control.id || control.className || control.textContent}} ${{ratio.toFixed(2)}}`);
  }}
  return [...faint];
}})()"""

FADING = """[...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
  .filter((rule) => rule instanceof CSSKeyframesRule && [...rule.cssRules].some((frame) => frame.style.opacity !== ""))
  .map((rule) => rule.name)"""
