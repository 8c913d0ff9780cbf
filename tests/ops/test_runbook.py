"""The runbook as it is needed: each alert is brought about by hand, what its paragraph says is done, and it is over.

Real processes, a real Prometheus with the committed rules, a real Alertmanager. Only the times and numbers of the rules
are smaller.
"""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from tailrace.ops.monitoring import rule_file
from tailrace.ops.monitoring.rules import RULES
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import StoreError
from tests.conftest import LeaveOut
from tests.ops.commands import tailrace
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import ConsumerProcess
from tests.support.prometheus import Prometheus, Webhook, installed
from tests.support.server import QUICK

RUNBOOK = (Path(__file__).parents[2] / "ops" / "runbook.md").read_text()
HANDLERS = str(Path(__file__).with_name("walk_handlers.py"))
SMALLER = (  # in the rules: what is written there, and what stands for it here
    (r"for: \d+s", "for: 1s"),
    (r"> 1000\b", "> 20"),
    (r"> 600\b", "> 3"),
    (r"> 60\b", "> 3"),
    (r"offset 30s", "offset 3s"),
    (r"\[10m\]", "[15s]"),
    (r"\[15m\]", "[45s]"),
)


def paragraph(name: str) -> str:
    found = re.search(rf"^### {name}$\n(.*?)(?=^##|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert found, f"the runbook has no paragraph {name}"
    return found[1]


@pytest.mark.parametrize("name", [rule.name.removeprefix("Tailrace") for rule in RULES])
def test_each_paragraph_says_what_to_look_at_and_what_to_do_and_its_links_lead_somewhere(name: str) -> None:
    text = paragraph(name)
    assert "\n- **Look**: " in text
    assert "\n- **Do**: " in text
    anchors = {heading.lower() for heading in re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)}
    assert set(re.findall(r"\(#(\w+)\)", text)) <= anchors


class Walk:
    """An operator who hears alerts, reads their paragraphs and does what they say."""

    def __init__(self, deployment: Deployment, store: OwnStore, webhook: Webhook, folder: Path) -> None:
        self.deployment = deployment
        self.store = store
        self.mended = folder / "mended"
        self._webhook = webhook

    async def hears(self, name: str, status: str = "firing", **labels: str) -> None:
        async def look() -> bool:
            return self._webhook.heard(f"Tailrace{name}", status, **labels)

        await eventually(f"{name} is {status} for {labels}", look, seconds=120)

    async def is_over(self, *names: str, **labels: str) -> None:
        for name in names:
            await self.hears(name, "resolved", **labels)
        self._webhook.alerts.clear()

    async def does(self, name: str, *words: str, code: int = 0) -> str:
        """Type a command that the paragraph names; what it prints."""
        assert f"`tailrace {words[0]}" in paragraph(name), f"{name} does not say: tailrace {words[0]}"
        done = await asyncio.to_thread(tailrace, *words, REDIS_URL=self.store.url)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    async def redis_cli(self, name: str, *words: str) -> str:
        """The same for what it says of the store's own client."""
        assert f'redis-cli -u "$REDIS_URL" {" ".join(words)}' in paragraph(name)
        typed = ["redis-cli", "-u", self.store.url, *words]
        done = await asyncio.to_thread(subprocess.run, typed, capture_output=True, text=True, check=True)
        return str(done.stdout)

    async def consumer(self, *platforms: str, port: int = 0) -> ConsumerProcess:
        """A consumer that beats. With a port of those that Prometheus asks, that one is missed no more."""
        consumer = self.start(*platforms, port=port)
        await self.deployment.beating(consumer)
        if port:
            await self.is_over("WorkerDead", instance=f"127.0.0.1:{port}")
        return consumer

    def start(self, *platforms: str, port: int = 0) -> ConsumerProcess:
        return self.deployment.start_consumer(
            *platforms,
            TAILRACE_HANDLERS=HANDLERS,
            MENDED=str(self.mended),
            TAILRACE_METRICS_PORT=str(port or free_port()),
        )

    async def submit(self, platform: str, kind: str = "drill", **args: float) -> str:
        return await self.deployment.submit(platform, kind=kind, **args)

    async def status(self, path: str) -> int:
        return (await self.deployment.http.get(f"{self.deployment.gateways[0].url}{path}")).status_code


async def no_worker_for_a_long_queue(walk: Walk) -> None:
    jobs = [await walk.submit("ably", steps=0) for _ in range(30)]
    for name in ("QueueLong", "OldestOld", "PlatformUnserved"):
        await walk.hears(name, platform="ably")
    assert re.search(r"ably +30 ", await walk.does("QueueLong", "platforms"))
    assert "ably" not in await walk.does("PlatformUnserved", "workers")
    assert "No consumer of ably" in await walk.does("OldestOld", "show", jobs[0])
    assert "`tailrace consume PLATFORM`" in paragraph("PlatformUnserved")
    await walk.consumer("ably")
    await walk.is_over("QueueLong", "OldestOld", "PlatformUnserved", platform="ably")


async def one_job_holds_the_only_slot(walk: Walk) -> None:
    await walk.consumer("kurly")
    first, second = [await walk.submit("kurly", steps=1, seconds=600) for _ in range(2)]
    await walk.hears("OldestOld", platform="kurly")
    assert first in await walk.does("OldestOld", "running")
    assert first in await walk.does("OldestOld", "show", second)
    for job in (first, second):
        await walk.does("OldestOld", "cancel", job)
    await walk.is_over("OldestOld", platform="kurly")


async def a_worker_dies(walk: Walk, port: int) -> None:
    worker = await walk.consumer("research", port=port)
    job = await walk.submit("research", steps=3, seconds=0.5)
    await walk.deployment.reached(job, 1)
    worker.kill_group()
    await walk.hears("WorkerDead", platform="research")
    await walk.hears("WorkerDead", instance=f"127.0.0.1:{port}")
    assert "silent" in await walk.does("WorkerDead", "workers")
    walk.start("research", port=port)
    await walk.hears("WorkerDead", "resolved", instance=f"127.0.0.1:{port}")
    await walk.is_over("WorkerDead", platform="research")
    assert [event.attempt for event in await walk.deployment.ended(job)][-1] == 2


async def every_job_kills_its_worker(walk: Walk) -> None:
    async def keep() -> None:
        while True:
            await walk.start("zigzag").ended(600)

    supervisor = asyncio.create_task(keep())
    try:
        job = await walk.submit("zigzag", "kills")
        await walk.hears("CrashLoop", platform="zigzag")
        await walk.deployment.ended(job)
        assert job in await walk.does("CrashLoop", "dead", "zigzag", "--error", "WorkerLost")
        assert "superseded" in await walk.does("CrashLoop", "history", job)
        await walk.does("CrashLoop", "pause", "zigzag")
        walk.mended.touch()
        await walk.does("CrashLoop", "resume", "zigzag")
        await walk.does("CrashLoop", "replay", "zigzag", "--error", "WorkerLost", "--yes")
        assert (await walk.deployment.ended(job))[-1].status == "completed"
        await walk.is_over("CrashLoop", platform="zigzag")
    finally:
        walk.mended.unlink(missing_ok=True)
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


async def a_worker_was_frozen(walk: Walk, *ports: int) -> None:
    workers = [await walk.consumer("musinsa", port=port) for port in ports]
    job = await walk.submit("musinsa", "careless", steps=60, seconds=0.1)
    began = await walk.deployment.started(job)
    (frozen,) = [worker for worker in workers if worker.owner == began.workerId]
    frozen.freeze()
    await walk.deployment.started(job, 2)
    frozen.thaw()
    await walk.hears("WritesRefused", platform="musinsa")
    assert "GET /api/v2/workers/status" in paragraph("WritesRefused")
    told = await walk.deployment.http.get(f"{walk.deployment.gateways[0].url}/api/v2/workers/status")
    assert job in told.text
    assert "lag" in await walk.does("WritesRefused", "workers")
    await walk.is_over("WritesRefused", platform="musinsa")


async def a_server_that_handlers_call_is_down(walk: Walk) -> None:
    jobs = [await walk.submit("research", "fails") for _ in range(8)]
    await walk.hears("FailuresGrow", platform="research")
    assert jobs[0] in await walk.does("FailuresGrow", "dead", "research")
    assert "the server that it calls is down" in await walk.does("FailuresGrow", "show", jobs[0])
    await walk.does("FailuresGrow", "pause", "research")
    walk.mended.touch()
    await walk.does("FailuresGrow", "drop", jobs.pop())
    await asyncio.to_thread(tailrace, "resume", "research", REDIS_URL=walk.store.url)
    await walk.does("FailuresGrow", "replay", "research", "--error", "GiveUp", "--yes")
    assert {(await walk.deployment.ended(job))[-1].status for job in jobs} == {"completed"}
    await walk.is_over("FailuresGrow", platform="research")


async def a_schedule_without_a_worker(walk: Walk) -> None:
    words = ("schedules", "set", "hwahae", "often", "drill", '{"steps": 0}', "--every", "1")
    await asyncio.to_thread(tailrace, *words, REDIS_URL=walk.store.url)
    await walk.hears("ScheduleLate", platform="hwahae")
    assert "often" in await walk.does("ScheduleLate", "schedules", "hwahae")
    assert "hwahae" not in await walk.does("ScheduleLate", "workers")
    await walk.consumer("hwahae")
    await walk.is_over("ScheduleLate", platform="hwahae")


async def the_store_may_evict(walk: Walk) -> None:
    await walk.deployment.store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    await walk.hears("StoreEvicts")
    assert "allkeys-lru" in await walk.redis_cli("StoreEvicts", "config", "get", "maxmemory-policy")
    await walk.redis_cli("StoreEvicts", "config", "set", "maxmemory-policy", "noeviction")
    await walk.is_over("StoreEvicts")


async def the_memory_of_the_store_is_nearly_full(walk: Walk) -> None:
    used = int(re.findall(r"used_memory:(\d+)", (await walk.deployment.store.command("INFO", "memory")).decode())[0])
    await walk.deployment.store.command("CONFIG", "SET", "maxmemory", round(used * 1.15))
    await walk.hears("StoreFull")
    assert "maxmemory:" in await walk.redis_cli("StoreFull", "info", "memory")
    await walk.does("StoreFull", "platforms")
    await walk.deployment.store.command("CONFIG", "SET", "maxmemory", used * 10)
    await walk.is_over("StoreFull")


async def the_disk_of_the_store_is_full(walk: Walk) -> None:
    filler = walk.store.folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:  # until no space is left
        while True:
            file.write(b"x" * 65536)

    async def refused() -> bool:
        try:
            await walk.deployment.store.command("SET", "filler", "x" * 4096)
        except StoreError:
            return True
        return False

    await eventually("the store notices", refused)
    await walk.hears("StoreWriteFails")
    assert "aof_last_write_status:err" in await walk.redis_cli("StoreWriteFails", "info", "persistence")
    filler.unlink()
    await walk.is_over("StoreWriteFails")
    await walk.does("StoreWriteFails", "doctor")


async def the_store_is_down(walk: Walk) -> None:
    walk.store.stop()
    await walk.hears("StoreDown")
    await walk.does("StoreDown", "doctor", code=69)
    assert "localhost:3989/readyz" in paragraph("StoreDown")
    assert await walk.status("/readyz") == 503
    walk.store.start()
    await walk.is_over("StoreDown")
    await walk.does("StoreDown", "doctor")


@contextmanager
def small_disk(folder: Path, leave_out: LeaveOut) -> Iterator[Path]:
    """A file system of its own that can be filled."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        leave_out("no file system can be mounted here, so the walk through the runbook cannot fill a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@asynccontextmanager
async def walking(folder: Path, ports: list[int], leave_out: LeaveOut) -> AsyncIterator[Walk]:
    text = rule_file.FILE.read_text()
    for written, here in SMALLER:
        assert re.search(written, text), f"no rule says {written}"
        text = re.sub(written, here, text)
    (folder / "rules.yml").write_text(text)
    disk = small_disk(folder / "disk", leave_out)
    with disk as place, OwnStore(place / "store", port=free_port(), extra_args=QUICK) as store:
        async with Deployment(store.url, folder) as deployment, Webhook().listening() as webhook:
            gateway = await deployment.gateway()
            targets = {
                "tailrace-gateway": [gateway.url.removeprefix("http://")],
                "tailrace-consumers": [f"127.0.0.1:{port}" for port in ports],
            }
            with Prometheus(folder, targets, folder / "rules.yml", webhook).running():
                yield Walk(deployment, store, webhook, folder)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_what_the_runbook_says_ends_each_alert(tmp_path: Path, leave_out: LeaveOut) -> None:
    if not installed():
        leave_out("there is no Prometheus on this machine (Debian: prometheus, prometheus-alertmanager)")
    first, second, third = [free_port() for _ in range(3)]
    async with walking(tmp_path, [first, second, third], leave_out) as walk:
        await no_worker_for_a_long_queue(walk)
        await one_job_holds_the_only_slot(walk)
        await a_worker_dies(walk, first)
        await every_job_kills_its_worker(walk)
        await a_worker_was_frozen(walk, second, third)
        await a_server_that_handlers_call_is_down(walk)
        await a_schedule_without_a_worker(walk)
        await the_store_may_evict(walk)
        await the_memory_of_the_store_is_nearly_full(walk)
        await the_disk_of_the_store_is_full(walk)
        await the_store_is_down(walk)
