"""The code in the READMEs of producers and consumers runs, and every public name is explained there."""

import asyncio
import inspect
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tailrace
from tailrace import consume
from tailrace.consumers.testing import run_handler
from tailrace.ops.bootstrap import CHECKOUT


def blocks(room: str, heading: str) -> list[str]:
    """The Python code below a heading of a README."""
    text = (CHECKOUT / room / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


def module(*code: str) -> dict[str, Any]:
    """As if all of it stood in one file."""
    made = ModuleType("readme")
    sys.modules["readme"] = made
    exec("\n".join(code), made.__dict__)
    return made.__dict__


async def test_the_readme_of_producers_runs(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", valkey_url)
    readme = module(*blocks("producers", "From Python"))
    working = asyncio.create_task(consume(readme["handles"], platforms=["default"], signals=False))
    try:
        assert await readme["greet_all"](["Ada", "Grace"]) == 2
        job_id = await asyncio.to_thread(readme["start"], ["Ada"])
        assert await asyncio.to_thread(readme["count"], job_id) == 1
    finally:
        await asyncio.to_thread(readme["tr"].close)
        working.cancel()
        await asyncio.wait([working])
    said = ["queued None", "started None", "progress Hello Ada", "progress Hello Grace", "completed None"]
    assert capsys.readouterr().out.splitlines() == said


class Page(SimpleNamespace):
    text = "a page"


class Client:
    """Stands in for a pool and an HTTP client: we do not install them."""

    def __init__(self, timeout: float | None = None) -> None:
        self.said: list[tuple[str, ...]] = []

    async def get(self, url: str) -> Page:
        return Page()

    async def execute(self, *said: str) -> None:
        self.said.append(said)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None: ...


@asynccontextmanager
async def create_pool(url: str) -> AsyncGenerator[Client]:
    yield Client()


async def test_the_readme_of_consumers_runs(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setitem(sys.modules, "asyncpg", SimpleNamespace(Pool=Client, create_pool=create_pool))
    monkeypatch.setitem(sys.modules, "httpx", SimpleNamespace(AsyncClient=Client))
    readme = module(*blocks("consumers", "Resources"), *blocks("consumers", "Inside a program of yours"))
    pool = Client()
    outcome = await run_handler(readme["handles"], "watch", {"url": "u"}, state=readme["Shared"](pool, Client()))
    assert (outcome.result, pool.said) == (6, [("INSERT INTO pages VALUES ($1, $2)", "u", "a page")])
    async with readme["with_consumer"](None), tailrace.Tailrace() as tr:
        job = await tr.submit("default", "watch", {"url": "u"})
        assert await tr.result(job.id, timeout=30) == 6


def test_every_public_name_is_explained() -> None:
    names = tailrace.__all__
    assert names == sorted(names)
    assert 15 <= len(names) <= 26, "about twenty: what is for few users stays in its room"
    readme = (CHECKOUT / "producers" / "README.md").read_text(encoding="utf-8")
    table = readme.partition("`from tailrace import …` has these names:")[2].partition("\n## ")[0]
    assert sorted(set(re.findall(r"`(\w+)`", table))) == names
    without = [name for name in names if not inspect.getdoc(getattr(tailrace, name))]
    assert without == []
