"""A canary: a secret that was shown in every way there is turns up nowhere."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.keys import Keyspace
from tailrace.streams.store.connection import Store
from tests.gateway.gateways import GatewayProcess, environment
from tests.gateway.keyrings import shown
from tests.gateway.raw import RawClient
from tests.support.builders import Desk

CANARY = "canary-SECRET-0123456789abcdef"
OTHER = "canary-OTHER-0123456789abcdef"
EVERYWHERE = (
    ("GET", "/{}"),
    ("GET", "/research/history/{}"),
    ("GET", "/research/history/research.a?after={}"),
    ("GET", "/research/stream/research.a?ticket={}"),
    ("GET", "/api/jobs/research.a?ticket={}&key={}"),
    ("GET", "/api/platforms/research/jobs?state={}"),
    ("POST", "/api/session"),
    ("POST", "/api/tickets"),
    ("POST", "/api/jobs"),
    ("PUT", "/metrics"),
    ("GET", "/metrics"),
)


async def use(http: httpx2.AsyncClient, word: str) -> list[httpx2.Response]:
    """Show a word wherever a request has a place for it."""
    answers = []
    for headers in (
        shown(word),
        {"Authorization": f"Basic {word}"},
        {"Cookie": f"tailrace_session={word}"},
        {"X-Api-Key": word, "User-Agent": word, "Referer": f"http://x/?ticket={word}", "Origin": f"http://{word}"},
    ):
        for method, path in EVERYWHERE:
            async with http.stream(method, path.format(word, word), headers=headers) as answer:
                if "event-stream" not in answer.headers["content-type"]:
                    await answer.aread()
                answers.append(answer)
    answers.append(await http.post("/api/session", json={"key": word}))
    answers.append(await http.post("/api/session", content=word.encode(), headers={"Content-Type": "application/json"}))
    return answers


@pytest.fixture
def process(frail: OwnStore, tmp_path: Path) -> Iterator[GatewayProcess]:
    entries = tmp_path / "keys"
    entries.write_text(f"{CANARY}\n{OTHER}:read:ably\n")
    with GatewayProcess(frail.url, {"TAILRACE_API_KEYS_FILE": str(entries), "LOG_LEVEL": "debug"}) as process:
        yield process


@pytest.fixture
async def http(process: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=process.url, timeout=20, verify=False) as client:
        yield client


async def shown_instead(http: httpx2.AsyncClient, frail: OwnStore) -> tuple[str, str]:
    """A session, and a ticket for a job."""
    async with Store(frail.url) as store:
        await Desk(store, "research").submit("a")
    answer = await http.post("/api/session", json={"key": CANARY})
    http.cookies.clear()
    ticket = (await http.post("/api/tickets", json={"jobId": "research.a"}, headers=shown(CANARY))).json()["ticket"]
    return answer.headers["set-cookie"].partition("=")[2].partition(";")[0], str(ticket)


async def test_a_secret_turns_up_nowhere(frail: OwnStore, process: GatewayProcess, http: httpx2.AsyncClient) -> None:
    words = (CANARY, OTHER, *await shown_instead(http, frail))
    seen: list[str] = []
    for away in (False, True):
        if away:
            frail.kill()
        for word in words:
            for answer in await use(http, word):
                http.cookies.clear()
                own = word in answer.request.url.path  # an answer may repeat the word only if it was the path
                if "event-stream" not in answer.headers["content-type"] and not own:
                    kept = {name: value for name, value in answer.headers.items() if name != "set-cookie"}
                    seen += [answer.text, str(kept)]
    us = psutil.Process(process.process.pid)
    seen += [" ".join(each.cmdline()) for each in (us, *us.children(recursive=True))]
    seen.append(await asyncio.to_thread(process.stop))
    assert "store_away" in seen[-1] or "gateway_started" in seen[-1], "it has said something"
    assert not {word for word in words if any(word in text for text in seen)}
    assert len(seen) > 100


async def test_without_a_store_nobody_is_turned_away_for_ever(frail: OwnStore, http: httpx2.AsyncClient) -> None:
    session, ticket = await shown_instead(http, frail)
    frail.kill()
    held = {"Cookie": f"tailrace_session={session}"}
    stream = "/research/stream/research.a"
    for path, headers in ((stream, held), (f"{stream}?ticket={ticket}", {}), ("/api/events", held)):
        answer = await http.get(path, headers=headers)
        assert answer.status_code == 200, "with any other status an EventSource does not come back"
        assert "retry:" in answer.text
    answer = await http.get("/api/platforms", headers=held)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    for path in ("/readyz", "/api/platforms"):
        told = (await http.get(path, headers=shown(CANARY))).text
        assert "STORE_AWAY" in told
        assert str(frail.port) not in told, "the address of the store stays secret"
    assert (await http.get("/api/session", headers=shown(CANARY))).status_code == 200, "a key is known without it"


async def test_a_wrong_setting_does_not_tell_the_key(valkey_url: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        for wrong in ("fly", "read:nowhere", "read:ably:more"):
            tasks.create_task(refused(valkey_url, f"{CANARY}:{wrong}"))
        for wrong in ("canary-SECRET", f"{CANARY}é"):
            tasks.create_task(refused(valkey_url, wrong))


async def refused(store_url: str, wrong: str) -> None:
    variables = environment(store_url, TAILRACE_API_KEYS=f"{OTHER},{wrong}")
    command = (sys.executable, "-m", "tailrace.gateway", "--port", "0")
    process = await asyncio.create_subprocess_exec(*command, env=variables, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 78, said
    assert b"TAILRACE_API_KEYS: entry 2" in said
    assert b"canary" not in said


async def test_rubbish_fills_no_log(process: GatewayProcess) -> None:
    async with RawClient(process.url) as raw:
        for _ in range(20):
            assert (await raw.ask("GET", "/healthz", "X : y")).status == 400
            assert (await raw.ask("GET", "/healthz", "Connection: Upgrade", "Upgrade: h2c")).status == 200
            assert (await raw.ask("GET", "/nothing")).status == 401
    said = await asyncio.to_thread(process.stop)
    assert len(said.splitlines()) < 10, said


def test_the_names_of_what_is_kept_hold_hashes_only() -> None:
    assert (Keyspace().ticket("ab"), Keyspace().session("ab")) == ("tr:ticket:ab", "tr:session:ab")
