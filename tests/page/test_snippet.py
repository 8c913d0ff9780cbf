"""The snippet of our guide in the page of another site, in a real browser, through the death of its gateway."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx2
from playwright.async_api import Route, expect

from tailrace.ops.bootstrap import CHECKOUT
from tailrace.streams.history.events import Event
from tests.page.byhand import JobByHand
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import Process

GUIDE = (CHECKOUT / "gateway" / "progress.md").read_text(encoding="utf-8")
SNIPPET: str
(SNIPPET,) = re.findall(r"```html\n(.*?)```", GUIDE, flags=re.DOTALL)
(SCRIPT,) = re.findall(r"<script type=\"module\">\n(.*?)</script>", SNIPPET, flags=re.DOTALL)

KEY = "somebodys-long-key-0123"

# Every text that was ever shown, in order.
OBSERVE = """
    window.shown = [];
    new MutationObserver((changes) => {
        for (const { target, addedNodes } of changes)
            if (target.id === 'said') window.shown.push(...[...addedNodes].map((node) => node.data));
    }).observe(document, { childList: true, subtree: true });
"""


def test_the_snippet_has_as_many_lines_as_is_said_of_it() -> None:
    lines = f"{len(SNIPPET.splitlines())} lines"
    assert f"Paste these {lines}" in GUIDE
    assert len(SCRIPT.splitlines()) <= 20
    assert max(map(len, SCRIPT.splitlines())) <= 120


@asynccontextmanager
async def site(answers: dict[str, Callable[[], Awaitable[str]]]) -> AsyncIterator[str]:
    """A web site of another owner."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            status, body = ("200 OK", await answers[path]()) if path in answers else ("204 No Content", "")
            kind = "Content-Type: text/html; charset=utf-8\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode())
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Gateways:
    """One gateway after the other at one address, for pages of one origin."""

    def __init__(self, deployment: Deployment, folder: Path, origin: str, keys: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._deployment = deployment
        self._log = folder / f"gateway-for-{self.port}.log"
        self._variables = {"REDIS_URL": deployment.url, "HOST": "127.0.0.1", "PORT": str(self.port)}
        self._variables |= {"TAILRACE_CORS_ORIGINS": origin, **({"TAILRACE_API_KEYS": keys} if keys else {})}
        self._process: Process | None = None

    async def start(self) -> None:
        self._process = Process("tailrace.gateway", (), self._variables, self._log)

        async def ready() -> bool:
            try:
                return (await self._deployment.http.get(f"{self.url}/readyz")).status_code == 200
            except httpx2.TransportError:
                return False

        await eventually("the gateway answers", ready)

    def kill(self) -> None:
        if self._process:
            self._process.close()
            self._process = None


def said(history: list[Event]) -> list[str]:
    return [f"{event.step} of {event.of}" if event.of else event.status.value for event in history]


async def test_the_snippet_shows_each_event_once_though_its_gateway_dies(
    deployment: Deployment, by_hand: Callable[[int], Awaitable[JobByHand]], visitor: Visitor, tmp_path: Path
) -> None:
    """Twice on one page: with a gateway that asks for keys, and with one that does not."""
    pages: dict[str, Callable[[], Awaitable[str]]] = {}
    tickets: list[str] = []

    async def frames() -> str:
        return '<!doctype html><title>a shop</title><iframe name="free" src="/free"></iframe><iframe src="/locked">'

    async def ticket() -> str:
        """What the shop's own server does: it has the key, and waits while no gateway is there."""

        async def issued() -> str:
            with suppress(httpx2.TransportError):
                headers = {"Authorization": f"Bearer {KEY}"}
                asked = await deployment.http.post(f"{locked.url}/api/tickets", json={"jobId": job.id}, headers=headers)
                tickets.append(str(asked.json()["ticket"]))
                return tickets[-1]
            return ""

        return await eventually("a ticket is issued", issued)

    async def pasted(gateway: Gateways, ask: str = "") -> str:
        named, nothing = "http://127.0.0.1:3989/research/stream/research.0199", 'async () => ""'
        assert SNIPPET.count(named) == SNIPPET.count(nothing) == 1
        snippet = SNIPPET.replace(named, f"{gateway.url}/research/stream/{job.id}")
        return snippet.replace(nothing, ask or nothing)

    async with site(pages) as origin, AsyncExitStack() as stack:
        free, locked = Gateways(deployment, tmp_path, origin), Gateways(deployment, tmp_path, origin, KEY)
        for gateway in (free, locked):
            stack.callback(gateway.kill)
        await asyncio.gather(free.start(), locked.start())
        job = await by_hand(10)
        await job.shows(1, 2)
        pages["/"], pages["/ticket"] = frames, ticket
        pages["/free"] = lambda: pasted(free)
        pages["/locked"] = lambda: pasted(locked, 'async () => (await fetch("/ticket")).text()')
        await visitor.page.add_init_script(OBSERVE)
        await visitor.open(origin)
        _, *inside = visitor.page.frames
        assert len(inside) == 2
        for frame in inside:
            await expect(frame.locator("#said")).to_have_text("2 of 10", timeout=PATIENCE_MS)
        visitor.outage = True
        free.kill()
        locked.kill()
        await job.shows(3, 6)  # no gateway is there to send it
        await asyncio.gather(free.start(), locked.start())
        await job.shows(7, 10)
        await job.completes()
        history = await deployment.ended(job.id)
        for frame in inside:
            await expect(frame.locator("#said")).to_have_text("completed", timeout=PATIENCE_MS)
            assert await frame.evaluate("window.shown") == said(history)
            assert await frame.evaluate("document.getElementById('bar').value") == 1
        asked = len(visitor.requests)
        await asyncio.sleep(1.0)  # they would be back by now, if they came back
        assert len(visitor.requests) == asked
        assert len(set(tickets)) == len(tickets) > 1


async def test_the_snippet_begins_anew_after_a_reset_and_stops_when_the_end_was_missed(
    visitor: Visitor,
) -> None:
    """What a gateway would say, word by word."""

    def told(seq: int, status: str, message: str) -> str:
        return f'id: {seq}-1\ndata: {{"status":"{status}","message":"{message}","step":{seq},"of":4}}\n\n'

    answers = [
        told(1, "progress", "one") + told(2, "progress", "two"),
        "event: reset\ndata: {}\n\n" + told(1, "progress", "<b>uno</b>"),
        told(4, "completed", "all"),
    ]
    asked: list[str] = []
    async with site({}) as origin:

        async def answer(route: Route) -> None:
            asked.append(route.request.url.partition("?")[2])
            body = answers[len(asked) - 1] if len(asked) <= len(answers) else None
            kind = {"Content-Type": "text/event-stream"}
            await (route.fulfill(status=200, headers=kind, body=body) if body else route.fulfill(status=204))

        async def page(route: Route) -> None:
            snippet = SNIPPET.replace("http://127.0.0.1:3989", origin)
            await route.fulfill(status=200, headers={"Content-Type": "text/html"}, body=snippet)

        await visitor.page.route("**/page", page)
        await visitor.page.route("**/research/stream/**", answer)
        await visitor.page.add_init_script(OBSERVE)
        await visitor.open(f"{origin}/page")
        await visitor.sees("#said", "all")
        assert await visitor.ask("window.shown") == ["one", "two", "<b>uno</b>", "all"]

        async def stopped() -> bool:
            return len(asked) == 6

        await eventually("it asked three times after the end", stopped)
        last = [query.partition("&")[0] for query in asked]
        assert last == [f"lastEventId={seq}" for seq in ("", "2-1", "1-1", "4-1", "4-1", "4-1")]
