"""Canaries in every setting that holds a secret: nothing that runs, fails or is printed tells one of them."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.producers import Submission
from tailrace.streams.options import Options
from tailrace.streams.store.connection import Store
from tests.gateway.gateways import GatewayProcess
from tests.gateway.keyrings import shown
from tests.ops.commands import Here, environment, tailrace
from tests.ops.up_process import Up
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port

PASSWORD = "canary-of-the-store"
NEXT_PASSWORD = "canary-after-a-change"
KEY = "canary-of-a-client-0123456789"
MODEL = "canary-of-the-model"
HOOK = "T0/B0/canary-of-the-channel"
CANARY = re.compile("canary-[a-z-]+")

SECRETS = {
    "TAILRACE_API_KEYS": KEY,
    "LLM_SERVER_URL": f"http://somebody:{MODEL}@127.0.0.1:1",
    "TAILRACE_SLACK_URL": f"https://hooks.slack.com/services/{HOOK}",
    "TAILRACE_DISCORD_URL": f"https://discord.com/api/webhooks/{HOOK}",
    "LOG_LEVEL": "debug",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[OwnStore]:
    """A server that asks for a password. It is not told by its arguments: everybody may list those."""
    with OwnStore(tmp_path / "guarded", port=free_port()) as server:
        yield server


async def protect(server: OwnStore, password: str, old: str = "") -> str:
    """Ask for this password from now on; the address with it."""
    known = server.url.replace("://", f"://:{old}@") if old else server.url
    async with Store(known) as store:
        await store.command("CONFIG", "SET", "requirepass", password)
    return server.url.replace("://", f"://:{password}@")


def arguments_of(*pids: int) -> list[str]:
    """The command lines of these processes and of all that they started."""
    lines = []
    for pid in pids:
        process = psutil.Process(pid)
        lines += [" ".join(each.cmdline()) for each in (process, *process.children(recursive=True))]
    return lines


async def test_no_process_and_no_answer_tells_a_secret(guarded: OwnStore, tmp_path: Path) -> None:
    url = await protect(guarded, PASSWORD)
    seen: list[str] = []
    async with Deployment(url, tmp_path) as deployment:
        consumer = deployment.start_consumer("research", **SECRETS)  # type: ignore[arg-type] # none of them is a pace
        await deployment.beating(consumer)
        asked = Submission("research", "research", {"query": "why"}, None, Options(attempts=1))
        job = (await deployment.producer.submit(asked)).id  # the model does not answer
        failed = await deployment.ended(job)
        assert failed[-1].error
        assert "refused" in failed[-1].error.message
        with GatewayProcess(url, SECRETS) as gateway:
            async with httpx2.AsyncClient(base_url=gateway.url, headers=shown(KEY), verify=False) as http:
                paths = ("/metrics", "/readyz", "/api/platforms", f"/api/jobs/{job}", f"/research/history/{job}", "/")
                seen += [(await http.get(path)).text for path in paths]
                seen += arguments_of(consumer.pid, gateway.process.pid)
                await protect(guarded, NEXT_PASSWORD, PASSWORD)
                async with Store(guarded.url.replace("://", f"://:{NEXT_PASSWORD}@")) as store:
                    await store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                answers = [await http.get(path) for path in paths]
                assert {answer.status_code for answer in answers} >= {503}
                seen += [answer.text for answer in answers]

                async def noticed() -> bool:
                    return "credentials" in consumer.log.read_text()

                await eventually("the consumer says so", noticed)
            seen.append(await asyncio.to_thread(gateway.stop))
        seen.append(consumer.log.read_text())
    assert not CANARY.findall("\n".join(seen))
    assert len("".join(seen)) > 1000


def test_no_command_tells_a_secret(guarded: OwnStore, tmp_path: Path, here: Here) -> None:
    url = anyio.run(protect, guarded, PASSWORD)
    held = tmp_path / "url"
    held.write_text(url)
    said = []
    for variables in ({"REDIS_URL": url}, {"REDIS_URL_FILE": str(held)}):
        for words in (["submit", "research", "drill", "--json"], ["doctor"], ["running"], ["show", "research.none"]):
            code, out, err = here(*words, **variables, **SECRETS)
            assert code in {0, 1}, err
            said += [out, err]
    wrong = (
        url.replace(PASSWORD, NEXT_PASSWORD),
        url.replace("redis://", "http://"),
        url.removeprefix("redis://"),
        url.replace(PASSWORD, f"{PASSWORD}/x"),
        url.replace(PASSWORD, f"{PASSWORD}#x"),
        f"{url}?nobody_knows={PASSWORD}",
        url.replace(str(guarded.port), "1"),
        f"{url}/zz",
        f"{url}/99",
    )
    for address in wrong:
        for words in (["doctor"], ["submit", "research", "drill"], ["up", "--data", str(tmp_path / "data")]):
            code, out, err = here(*words, REDIS_URL=address, **SECRETS)
            assert code in {69, 78}, err
            said += [out, err]
    for words in (["gateway", "--port", "0"], ["consume", "research"]):
        for address in (wrong[0], wrong[3], wrong[-1]):
            result = tailrace(*words, REDIS_URL=address, **SECRETS)
            assert result.returncode == 78, result
            said += [result.stdout, result.stderr]
    assert not CANARY.findall("".join(said))
    assert "Traceback" not in "".join(said)
    assert len("".join(said)) > 1000


def test_up_greets_with_a_command_that_works_and_tells_no_key(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", **SECRETS)
    try:
        up.wait_until_ready()
        greeting = up.said()
        (command,) = re.findall(r"^try +(curl .*)$", greeting, re.MULTILINE)
        assert "read -rs API_KEY" in greeting
        shell = ["sh", "-c", command + " -sS -o /dev/null -w '%{http_code}'"]
        for key, status in (("", "401"), (KEY, "202")):
            answer = subprocess.run(shell, env=environment(API_KEY=key), capture_output=True, text=True, check=True)
            assert answer.stdout == status
        up.wait_for_consumer("research")
        assert not CANARY.findall(" ".join(arguments_of(up.process.pid)))
        for child in up.children():
            if "consumers" in " ".join(child.cmdline()):
                assert KEY not in str(child.environ()), "handlers are code of others"
        files = [path for path in up.data.rglob("*") if path.is_file()]
        assert not [path for path in files if CANARY.search(path.read_text(errors="replace"))]
        assert not CANARY.findall(up.said())
    finally:
        up.clean_up()
