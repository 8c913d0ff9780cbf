"""A visitor of the page, and what the page shows."""

import re
from typing import Any

from playwright.async_api import ConsoleMessage, Page, Request, expect

from tailrace.streams.history.events import Event

PATIENCE_MS = 20_000

OUTAGE = re.compile(r"Failed to load resource: .*(503|net::ERR_)|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION")


class Visitor:
    """One tab of a browser."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.outage = False  # while the test breaks something, the browser may say that it cannot reach it
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._ask)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not (self.outage and OUTAGE.search(message.text)):
            self.errors.append(message.text)

    def _ask(self, request: Request) -> None:
        if not request.url.startswith("data:"):
            self.requests.append(request.url)

    async def open(self, url: str) -> None:
        await self.page.goto(url)

    async def leave(self) -> None:
        """Before the gateway ends: a page that is open then would say that it cannot reach it."""
        await self.page.goto("data:text/html,")

    async def sees(self, selector: str, text: str | re.Pattern[str], *, patience_ms: float = PATIENCE_MS) -> None:
        """Wait until some element says so."""
        await expect(self.page.locator(selector).filter(has_text=text).first).to_be_visible(timeout=patience_ms)

    async def state(self, word: str) -> None:
        await expect(self.page.locator("#state")).to_have_text(word, timeout=PATIENCE_MS)

    async def confirm(self, title: str) -> None:
        """Answer the question of this title with yes."""
        await expect(self.page.locator("#confirm-title")).to_have_text(title, timeout=PATIENCE_MS)
        no = "Back" if title.startswith("Cancel") else "Cancel"
        await expect(self.page.locator("#confirm button[value=no]")).to_have_text(no)
        await self.page.click("#confirm-yes")

    async def event_ids(self) -> list[str]:
        """The events in the log, first to last."""
        ids: list[str] = await self.ask(
            "[...document.querySelectorAll('.events [data-id]')].map((row) => row.dataset.id)"
        )
        return ids

    async def has_shown(self, history: list[Event]) -> None:
        """Each event once, in order, and nothing else."""
        wanted = [event.id for event in history]
        await expect(self.page.locator(".events [data-id]")).to_have_count(len(wanted), timeout=PATIENCE_MS)
        assert await self.event_ids() == wanted

    async def lanes(self) -> list[tuple[str, str, list[str]]]:
        """Of each lane: its name, its colour, and its steps by their labels."""
        rows: list[list[Any]] = await self.ask(
            """[...document.querySelectorAll('.lane')].map((lane) => [
                lane.querySelector('.lane-name b').textContent, lane.classList[1],
                [...lane.querySelectorAll('.step')].map((step) => step.textContent)])"""
        )
        return [(name, tone, steps) for name, tone, steps in rows]

    async def ask(self, script: str) -> Any:
        return await self.page.evaluate(script)
