"""A real browser, and what it must never do: log an error, or ask another host."""

from collections.abc import AsyncIterator, Callable
from typing import NoReturn
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.async_api import Browser, async_playwright

from tests.page.visitors import Visitor

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
    """Somebody who looks at the page; afterwards it must have been quiet."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    visitor = Visitor(await context.new_page())
    yield visitor
    await context.close()
    assert visitor.errors == []
    assert {urlsplit(url).hostname for url in visitor.requests} <= {"127.0.0.1"}
