"""A real browser, and what it must never do: log an error, or ask another host."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.async_api import Browser, async_playwright

from tailrace.ops.up.own_store import OwnStore
from tests.page.byhand import WORKER, JobByHand
from tests.page.visitors import Visitor
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.ports import free_port
from tests.support.server import QUICK

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="session")
async def browser(leave_out: Callable[[str], NoReturn]) -> AsyncIterator[Browser]:
    if not await anyio.Path(CHROMIUM).exists():
        leave_out("there is no chromium on this machine")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    """A visitor of the page; afterwards the page must have had no errors."""
    context = await browser.new_context(
        viewport={"width": 1280, "height": 800},
        reduced_motion="reduce",  # what moves is drawn sixty times a second
    )
    visitor = Visitor(await context.new_page())
    yield visitor
    await context.close()
    assert visitor.errors == []
    assert {urlsplit(url).hostname for url in visitor.requests} <= {"127.0.0.1"}


@pytest.fixture(scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A store, a gateway and a consumer for all tests of a module: starting them takes longer than most of what is
    looked at. Each test knows its jobs by their ids; one that counts or pauses what a platform does takes one that no
    other takes. No worker serves platforms but `research`, `kurly` and `hwahae`."""
    folder = tmp_path_factory.mktemp("standing")
    with OwnStore(folder / "data", extra_args=QUICK) as store:
        async with Deployment(store.url, folder) as deployment:
            await asyncio.gather(deployment.gateway(), deployment.consumer("research", "kurly", "hwahae"))
            yield deployment


@pytest.fixture
async def frail(tmp_path: Path) -> AsyncIterator[tuple[OwnStore, Deployment]]:
    """A store of this test's own, to be killed."""
    with OwnStore(tmp_path / "frail", port=free_port()) as store:
        async with Deployment(store.url, tmp_path) as deployment:
            yield store, deployment


@pytest.fixture
async def by_hand(deployment: Deployment) -> AsyncIterator[Callable[[int], Awaitable[JobByHand]]]:
    """Start a job of `research` with this many steps, which only the test takes."""
    hearts: list[asyncio.Task[None]] = []

    async def start(steps: int) -> JobByHand:
        desk = Desk(deployment.store, "research")
        job = JobByHand(desk, await desk.start("a", WORKER), steps)
        hearts.append(asyncio.create_task(job.beats()))
        return job

    yield start
    for heart in hearts:
        heart.cancel()
    await asyncio.gather(*hearts, return_exceptions=True)
