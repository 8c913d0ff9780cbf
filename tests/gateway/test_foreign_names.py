"""A key that is limited to some platforms reads the name of no other one, whatever it asks for."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from tailrace.gateway.application import TABLE
from tailrace.gateway.openapi import document
from tailrace.gateway.route_table import STREAM
from tailrace.ops.up.own_store import OwnStore
from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.schedules import Schedules
from tailrace.streams.messages import About, RefusedWrites, encode
from tailrace.streams.schedules import Schedule
from tailrace.streams.store.connection import Store
from tests.gateway.documented import Document
from tests.gateway.gateways import gateway_thread
from tests.gateway.keyrings import shown
from tests.support.builders import Desk

FOREIGN, UNKNOWN = "foreign-shop", "unknown-shop"  # of one length: an answer may have a Content-Length
LIMITED = "limited-key-0123456789"
STATES = ("waiting", "active", "delayed", "waiting-children", "completed", "failed", "cancelled")
CONFIG = f"""
[platforms.{FOREIGN}]
lane = "{FOREIGN}"
max_running = 2
[platforms.mine]
lane = "{FOREIGN}"
max_running = 2
[platforms.mine-too]
lane = "{FOREIGN}"
max_running = 2
"""
DOCUMENT = Document(document(TABLE, locked=True))
GETS = sorted(route.split()[1] for route in DOCUMENT.routes if route.startswith("GET "))
OTHERS = sorted(route for route in DOCUMENT.routes if not route.startswith("GET "))


@pytest.fixture
async def limited(frail: OwnStore, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the limited key, on a store where much happens on the foreign platform too."""
    async with Store(frail.url) as store:
        await furnish(store)
    file = tmp_path / "tailrace.toml"
    file.write_text(CONFIG)
    variables = {"TAILRACE_API_KEYS": f"{LIMITED}::mine+mine-too", "TAILRACE_CONFIG": str(file)}
    with gateway_thread(frail.url, variables) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=20, verify=False, headers=shown(LIMITED)) as http:
            yield http


async def furnish(store: Store) -> None:
    """On each platform a job of every state and a schedule; one worker serves all of them, another the foreign one."""
    names = ("mine", "mine-too", FOREIGN)
    desks = [Desk(store, name) for name in names]
    about = About(refused=tuple(RefusedWrites(f"{name}.active", 1, 2) for name in names))
    for desk in desks:
        desk.siblings = tuple(name for name in names if name != desk.keys.platform)
        await desk.complete(await desk.start("completed", "shared"), {"text": "done"})
        await desk.fail(await desk.start("failed", "shared"))
        await desk.submit("cancelled")
        await desk.cancel("cancelled")
        await desk.start("active", "shared")
        await desk.submit("waiting")
        await desk.submit("delayed", delay_seconds=600)
        schedules = Schedules(desk.transitions, BUILT_IN.declare(names))
        await schedules.upsert(Schedule(name="nightly", platform=desk.keys.platform, kind="scan", every_seconds=3600))
    await desks[0].transitions.beat([(desk.keys, []) for desk in desks], "shared", encode(about))
    await desks[-1].beat(f"{FOREIGN}.host.1")


def said(answer: httpx2.Response) -> str:
    """The whole answer but for the moment it was given."""
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return f"{answer.status_code}\n{headers}\n{answer.text}"


def paths(path: str) -> Iterator[str]:
    """A path with every job of the key's own platforms in it, and with each query that it is documented to take."""
    jobs = [f"{platform}.{key}" for platform in ("mine", "mine-too") for key in STATES]
    asked = [parameter for parameter in DOCUMENT.parameters(f"GET {path}") if parameter["in"] == "query"]
    queries = ["", *(f"?{parameter['name']}=nonsense!" for parameter in asked)]
    if path.endswith("/jobs"):
        queries += [f"?state={state}" for state in STATES]
    for job in jobs if "{job_id}" in path else [""]:
        for query in queries:
            yield filled(path, "mine", job) + query


def filled(path: str, platform: str, job: str) -> str:
    name = "style.css" if path.startswith("/page/") else "nightly"
    parts = {"{job_id}": job, "{platform}": platform, "{name}": name, "{folder}": "job"}
    return re.sub(r"{\w+}", lambda part: parts[part[0]], path)


async def read(http: httpx2.AsyncClient, path: str) -> str:
    """The answer, of a stream its head: what it tells as it happens is another test."""
    async with http.stream("GET", path) as answer:
        if not answer.headers.get("content-type", "").startswith(STREAM):
            await answer.aread()
            return said(answer)
        told = f"{answer.headers}"
        try:
            async with asyncio.timeout(0.2):
                async for line in answer.aiter_lines():
                    told += line
        except TimeoutError:
            pass
        return told


async def test_no_answer_names_a_foreign_platform(limited: httpx2.AsyncClient) -> None:
    told = {path: await read(limited, path) for pattern in GETS for path in paths(pattern)}
    assert [path for path, text in told.items() if FOREIGN in text] == []
    assert '"worker_id":"shared"' in told["/api/v2/workers/status"]
    assert "mine.active" in told["/api/v2/jobs/running"]
    assert 'tailrace_jobs{platform="mine",state="failed"} 1.0' in told["/metrics"]
    assert '"reason":"lane"' in told["/api/jobs/mine.waiting"]


async def test_no_refusal_names_a_foreign_platform(limited: httpx2.AsyncClient) -> None:
    for route in OTHERS:
        method, path = route.split()
        for body in ({}, {"nonsense": 1}, {"platform": UNKNOWN, "kind": "scan"}, {"jobs": [{"platform": UNKNOWN}]}):
            for platform, job in (("mine", "mine.none"), (UNKNOWN, f"{UNKNOWN}.a")):
                answer = await limited.request(method, filled(path, platform, job), json=body)
                assert FOREIGN not in said(answer), route


async def test_a_foreign_platform_is_answered_as_one_that_was_never_declared(limited: httpx2.AsyncClient) -> None:
    for route in sorted(DOCUMENT.routes):
        for request in naming_a_platform(route):
            told = []
            for platform in (FOREIGN, UNKNOWN):
                method, path, body = (part.replace("PLATFORM", platform) for part in request)
                answer = await limited.request(method, path, content=body, headers={"Content-Type": "application/json"})
                told.append(said(answer).replace(platform, "PLATFORM"))
            assert told[0] == told[1], request


def naming_a_platform(route: str) -> Iterator[tuple[str, str, str]]:
    """Every way in which a request of this route can name a platform: in its path, its query or its body."""
    method, path = route.split()
    body = DOCUMENT.body(route)
    examples = [json.dumps(example["value"]) for example in (body or {}).get("examples", {}).values()] or [""]
    if path == "/api/v2/workflows/execute":
        examples = ['{"workflow_id": "daily", "params": {"platform": "default"}}']
    for example in examples:
        said_in_body = re.sub(r'"platform": "\w+"', '"platform": "PLATFORM"', example)
        said_in_body = said_in_body.replace("research.tides-1", "PLATFORM.failed")
        if "PLATFORM" in said_in_body or re.search(r"{job_id}|{platform}", path):
            yield method, filled(path, "PLATFORM", "PLATFORM.failed"), said_in_body
    for parameter in DOCUMENT.parameters(route):
        if parameter["in"] == "query" and parameter["name"] in {"platform", "jobs"}:
            yield method, f"{filled(path, 'mine', 'mine.failed')}?{parameter['name']}=PLATFORM", ""
            yield method, f"{filled(path, 'mine', 'mine.failed')}?{parameter['name']}=PLATFORM.failed", ""
