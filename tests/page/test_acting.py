"""Acting on the page in a real browser: cancel, retry, replay, pause, a new job; by mouse and by keys."""

import re

import httpx2
from playwright.async_api import expect

from tailrace.streams.states import Status
from tests.gateway.gateways import GatewayProcess
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.eventually import eventually


async def test_a_running_job_is_cancelled_and_given_another_life(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("research", steps=100, seconds=0.2)
    await visitor.open(f"{gateway.url}/jobs/{job}")
    await visitor.state("running")
    await visitor.page.get_by_role("button", name="cancel", exact=True).click()
    await visitor.confirm("Cancel this job?")
    await visitor.state("cancelled")
    await visitor.has_shown(await standing.ended(job))
    assert [lane[:2] for lane in await visitor.lanes()] == [("attempt 1", "cancel")]
    await visitor.page.get_by_role("button", name="retry", exact=True).click()
    await visitor.confirm("Retry this job?")
    await visitor.sees(".lane-name b", "attempt 2")
    await visitor.state("running")
    assert [lane[:2] for lane in await visitor.lanes()] == [("attempt 1", "cancel"), ("attempt 2", "run")]
    await visitor.sees(".events li", re.compile("reopened.*by the page"))


async def test_dead_letters_are_replayed_as_many_as_the_question_names(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    jobs = []
    for _ in range(3):
        body = {"platform": "research", "kind": "drill", "attempts": 1}
        args = {"steps": 1, "seconds": 0.01, "fail_times": 1}
        answer = await standing.http.post(f"{gateway.url}/api/jobs", json={**body, "args": args})
        jobs.append(answer.json()["jobId"])
    for job in jobs:
        await standing.ended(job)
    await visitor.open(gateway.url)
    await visitor.sees(".dead summary", "RuntimeError")
    await visitor.page.get_by_role("button", name="replay all").click()
    await visitor.confirm("Replay 3 failed jobs?")
    await visitor.sees("#said", "Replayed 3.")

    async def completed() -> bool:
        return all([(await standing.history(job))[-1].status is Status.COMPLETED for job in jobs])

    await eventually("all were replayed", completed)
    await expect(visitor.page.locator(".dead")).to_have_count(0, timeout=PATIENCE_MS)


async def test_all_failed_jobs_of_a_group_are_counted_and_dropped(standing: Deployment, visitor: Visitor) -> None:
    """More than one request does: the page repeats it until none that had failed is left."""
    (gateway,) = standing.gateways
    desk = Desk(standing.store, "zigzag")
    await desk.submit(*(f"job-{number}" for number in range(1200)), expires_at="2020-01-01T00:00:00Z")
    while await desk.transitions.wake([(desk.keys, desk.policy)]):  # twenty at a time
        pass
    page = visitor.page
    await visitor.open(f"{gateway.url}/?platform=zigzag&state=failed")
    await visitor.sees(".dead summary", re.compile("^1200.*Expired"))
    await expect(page.locator(".dead li input")).to_have_count(50, timeout=PATIENCE_MS)
    await page.get_by_role("button", name="drop all").click()
    await expect(page.locator("#confirm-yes")).to_have_class("danger")
    fail = await visitor.ask("getComputedStyle(document.querySelector('.dead summary .tone-fail')).color")
    assert await page.locator("#confirm-yes").evaluate("(yes) => getComputedStyle(yes).backgroundColor") == fail
    await visitor.confirm("Drop 1200 failed jobs?")
    await visitor.sees("#said", "Dropped 1200.")
    await expect(page.locator(".dead")).to_have_count(0, timeout=PATIENCE_MS)
    assert await standing.store.command("ZCARD", desk.keys["ended_failed"]) == 0


async def test_a_short_id_is_copied_whole_and_found_as_it_is_seen(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("hwahae", kind="nobodys", number=9)
    key = job.partition(".")[2]
    await standing.ended(job)
    page = visitor.page
    await visitor.open(f"{gateway.url}/?platform=hwahae&state=failed")
    row = page.locator(".dead li").filter(has_text=key[-12:])
    await row.locator("code").evaluate("(code) => getSelection().selectAllChildren(code)")
    assert await visitor.ask("getSelection().toString()") == key
    shown = await row.locator("code").evaluate("(code) => getComputedStyle(code, '::before').content")
    assert shown == '"…"'
    visitor.outage = True
    for text, start in ((f"…{key[-12:]}", "/?platform=hwahae&state=failed"), (f"…{key[-12:]}", "/"), (key, "/")):
        await visitor.open(gateway.url + start)
        await visitor.sees("#link-text", "live")
        await page.fill("#find-id", text)
        await page.keyboard.press("Enter")
        await visitor.state("failed")
        assert page.url == f"{gateway.url}/jobs/{job}"
    await visitor.open("about:blank")
    visitor.errors = [error for error in visitor.errors if "404" not in error]
    assert (await standing.http.post(f"{gateway.url}/api/jobs/{job}/drop")).status_code == 200  # for those after us


async def test_chosen_dead_letters_are_acted_on_and_edited_args_are_a_new_job(
    standing: Deployment, visitor: Visitor
) -> None:
    (gateway,) = standing.gateways
    jobs = [await standing.submit("hwahae", kind="nobodys", number=n) for n in range(3)]
    for job in jobs:
        await standing.ended(job)
    page = visitor.page
    await visitor.open(f"{gateway.url}/?platform=hwahae&state=failed")
    await visitor.sees(".dead summary", "UnknownKind")
    for job in jobs[:2]:
        await page.get_by_label(f"select {job}").check()
    await page.get_by_role("button", name="drop 2 selected").click()
    await visitor.confirm("Drop 2 failed jobs?")
    await visitor.sees("#said", "Dropped 2.")
    await expect(page.locator(".dead li")).to_have_count(1, timeout=PATIENCE_MS)
    await page.get_by_label(f"edit the args of {jobs[2]} and").click()
    await visitor.sees("#submit", f"{jobs[2]} does not change")
    form = page.locator("#submit-form")
    assert '"number": 2' in await form.locator("[name=args]").input_value()
    await form.locator("[name=kind]").fill("drill")
    await form.locator("[name=args]").fill('{"steps": 1, "seconds": 0.01, "result": "mended"}')
    await form.get_by_role("button", name="Submit as a new job").click()
    await visitor.state("completed")
    await visitor.sees(".job-facts pre", "mended")
    assert jobs[2] not in page.url
    assert (await standing.http.post(f"{gateway.url}/api/jobs/{jobs[2]}/drop")).status_code == 200  # for those after us


async def test_the_overview_tells_what_runs_and_a_platform_is_paused(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    running = await standing.submit("kurly", steps=50, seconds=0.5)
    await standing.submit("kurly", steps=1)
    await standing.submit("musinsa", steps=1)
    await visitor.open(gateway.url)
    kurly = visitor.page.locator(".platforms tr").filter(has_text="kurly")
    await expect(kurly.locator(".c-waiting")).to_have_text("1", timeout=PATIENCE_MS)
    await expect(kurly.locator(".job")).to_have_attribute("href", f"/jobs/{running}", timeout=PATIENCE_MS)
    await expect(kurly.locator(".pct")).to_have_text(re.compile(r"^\d+ %$"), timeout=PATIENCE_MS)
    await expect(visitor.page.locator("tr").filter(has_text="musinsa")).to_contain_text("no worker")
    await expect(visitor.page.locator(".workers tbody tr")).to_have_count(1)
    await visitor.page.get_by_role("button", name="pause kurly").click()
    await visitor.confirm("Pause kurly?")
    await visitor.sees(".platforms tr.paused", "paused by the page")
    await visitor.page.get_by_role("button", name="resume kurly").click()
    await expect(visitor.page.locator(".platforms tr.paused")).to_have_count(0, timeout=PATIENCE_MS)
    await kurly.locator(".c-waiting a").click()
    await visitor.sees("table.jobs", "drill")
    assert visitor.page.url == f"{gateway.url}/?platform=kurly&state=waiting"


async def test_a_new_job_is_submitted_and_what_is_wrong_is_said(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    await visitor.open(gateway.url)
    await visitor.sees(".platforms", "research")
    await visitor.page.keyboard.press("n")
    form = visitor.page.locator("#submit-form")
    await form.locator("[name=platform]").select_option("ably")
    await form.locator("[name=args]").fill("{steps")
    await form.get_by_role("button", name="Submit").click()
    await visitor.sees("#submit-wrong", "not JSON")
    visitor.outage = True
    await form.locator("[name=args]").fill('{"steps": -1}')
    await form.get_by_role("button", name="Submit").click()
    await visitor.sees("#submit-wrong", "steps")
    visitor.errors = [error for error in visitor.errors if "422" not in error]
    visitor.outage = False
    await form.locator("[name=args]").fill('{"steps": 1, "seconds": 0.01}')
    await form.locator("[name=id]").fill("by-hand")
    await form.get_by_role("button", name="Submit").click()
    await visitor.state("waiting")
    assert visitor.page.url == f"{gateway.url}/jobs/ably.by-hand"
    await visitor.sees(".job-facts pre", '"steps": 1')


async def test_the_keys_lead_everywhere_and_the_theme_is_kept(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("ably", steps=1)
    page = visitor.page
    await visitor.open(gateway.url)
    await visitor.sees(".platforms", "research")
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    assert await visitor.ask("document.activeElement.textContent") == "oliveyoung"
    await page.keyboard.press("Enter")
    await visitor.sees("h1", "oliveyoung")
    await page.keyboard.press("Escape")
    await visitor.sees(".platforms", "research")
    await page.click("#theme")
    chosen = await visitor.ask("document.documentElement.dataset.theme")
    await page.keyboard.press("/")
    await page.keyboard.type(job)
    await page.keyboard.press("Enter")
    await visitor.state("waiting")
    assert await visitor.ask("document.documentElement.dataset.theme") == chosen == "dark"


async def test_nothing_is_wider_than_a_phone(standing: Deployment, visitor: Visitor) -> None:
    (gateway,) = standing.gateways
    job = await standing.submit("research", steps=2, seconds=0.05, text="x" * 500, result="y" * 500)
    await standing.ended(job)
    await standing.submit("material-processing", steps=1)
    await standing.http.post(f"{gateway.url}/api/platforms/material-processing/pause", json={"by": "w" * 100})
    await visitor.page.set_viewport_size({"width": 390, "height": 844})
    for path, selector in (
        (f"/jobs/{job}", ".events li"),
        ("/", ".workers tr"),
        ("/?platform=research&state=completed", ".jobs tr"),
    ):
        await visitor.open(gateway.url + path)
        await expect(visitor.page.locator(selector).last).to_be_visible(timeout=PATIENCE_MS)
        assert await visitor.ask("document.documentElement.scrollWidth") <= 390
    await standing.http.post(f"{gateway.url}/api/platforms/material-processing/resume")  # for those after us


async def test_a_gateway_with_keys_asks_for_one(valkey_url: str, visitor: Visitor) -> None:
    with GatewayProcess(valkey_url, {"TAILRACE_API_KEYS": "somebodys-long-key-0123"}) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, verify=False) as http:
            headers = {"Authorization": "Bearer somebodys-long-key-0123"}
            body = {"platform": "research", "kind": "drill", "id": "kept"}
            assert (await http.post("/api/jobs", json=body, headers=headers)).status_code == 202
        await visitor.open(f"{gateway.url}/jobs/research.kept")
        await visitor.page.fill("#signin-key", "somebody-elses-key-0123")
        await visitor.page.keyboard.press("Enter")
        await visitor.sees("#signin-wrong", "This key is not valid")
        await visitor.page.fill("#signin-key", "somebodys-long-key-0123")
        await visitor.page.keyboard.press("Enter")
        await visitor.state("waiting")
        await visitor.page.get_by_role("button", name="cancel", exact=True).click()
        await visitor.confirm("Cancel this job?")
        await visitor.state("cancelled")
        assert "somebodys" not in str(
            await visitor.ask("[document.cookie, { ...localStorage }, { ...sessionStorage }]")
        )
        visitor.errors = [error for error in visitor.errors if "401" not in error]
        await visitor.open("about:blank")


async def test_the_form_offers_no_kind_that_the_gateway_refuses(valkey_url: str, visitor: Visitor) -> None:
    with GatewayProcess(valkey_url, {"TAILRACE_API_KEYS": "somebodys-long-key-0123", "TAILRACE_DRILL": ""}) as gateway:
        await visitor.open(gateway.url)
        await visitor.page.fill("#signin-key", "somebodys-long-key-0123")
        await visitor.page.keyboard.press("Enter")
        await visitor.sees(".platforms", "research")
        await visitor.page.locator("#submit-open").click()
        await expect(visitor.page.locator("#submit-form [name=kind]")).to_have_value("research", timeout=PATIENCE_MS)
        offered = await visitor.ask("[...document.querySelectorAll('#kinds option')].map(({ value }) => value)")
        assert offered == ["research", "scan", "make-plan", "process-material"]
        await visitor.page.get_by_role("button", name="Submit", exact=True).click()
        await visitor.state("waiting")
        visitor.errors = [error for error in visitor.errors if "401" not in error]
        await visitor.open("about:blank")
