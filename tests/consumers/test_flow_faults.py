"""Flows when a worker freezes in the middle, and when thousands of jobs wait."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from tailrace.producers import Submission
from tailrace.streams import PlatformKeys
from tailrace.streams.states import State
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED

FILE = str(Path(__file__).with_name("waiting_flows.py"))
CONFIG = "[platforms.haunts]\n[platforms.walks]\n[platforms.unserved]\n"


@pytest.fixture
async def deployment(valkey_url: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with Deployment(valkey_url, tmp_path, CONFIG) as deployment:
        yield deployment


async def test_a_zombie_thawed_inside_a_step_saves_submits_spawns_and_wakes_nothing(
    deployment: Deployment, tmp_path: Path
) -> None:
    zombie = await deployment.consumer("haunts", TAILRACE_HANDLERS=FILE)
    await deployment.consumer("walks", TAILRACE_HANDLERS=FILE)
    parent = (
        await deployment.producer.submit(Submission("walks", "haunted-parent", {"folder": str(tmp_path)}, "p"))
    ).id
    await eventually("the child is inside step 3", anyio.Path(tmp_path / "inside").exists)
    zombie.freeze()
    await deployment.consumer("haunts", TAILRACE_HANDLERS=FILE)
    history = await deployment.ended(parent)
    (tmp_path / "thawed").touch()
    zombie.thaw()
    await eventually("the zombie has tried everything", anyio.Path(tmp_path / "heard").exists)
    heard = (tmp_path / "heard").read_text().splitlines()
    assert not [line for line in heard if line.endswith(": done")]
    assert len([line for line in heard if line.endswith(": lost")]) >= len(heard) - 1, "one may be cancelled instead"
    assert history[-1].result == ["of the second attempt"]
    assert await deployment.history(parent) == history, "nothing woke the parent again"
    (child,) = [key.decode() for key in await deployment.store.command("HKEYS", PlatformKeys("walks").children("p"))]
    steps = await deployment.store.command("HGETALL", PlatformKeys("haunts").steps(child.partition(".")[2]))
    saved = dict(zip(steps[::2], steps[1::2], strict=True))
    assert saved == {b"step 1": b"null", b"step 2": b"null", b"@each 1": b'{"done":10}'}
    keys = [key.decode() for key in await deployment.store.command("KEYS", "tr:*}:job:*")]
    assert len(keys) == 2, "no stray job"
    assert await deployment.store.command("KEYS", "tr:*:outbox") == []


@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_three_thousand_jobs_that_wait_hold_neither_slot_nor_memory(deployment: Deployment) -> None:
    consumer = await deployment.consumer("haunts", pace=UNHURRIED, TAILRACE_HANDLERS=FILE, TAILRACE_CONCURRENCY="1")
    process, keys = psutil.Process(consumer.pid), PlatformKeys("haunts")

    async def put_away(kind: str, count: int) -> None:
        await deployment.producer.submit_many([Submission("haunts", kind, {}) for _ in range(count)])

    async def resting(count: int) -> None:
        async def look() -> bool:
            counts = await deployment.store.commands([("ZCARD", keys["due"]), ("ZCARD", keys["awaiting"])])
            return bool(sum(counts) == count)

        await eventually(f"{count} jobs rest", look, seconds=60)

    for kind in ("sleeps", "listens", "awaits"):
        await put_away(kind, 100)
    await resting(300)
    before = process.memory_info().rss
    for kind in ("sleeps", "listens", "awaits"):
        await put_away(kind, 900)
    await resting(3000)
    assert await deployment.leases("haunts") == []
    grown = process.memory_info().rss - before
    assert grown < 4 * 1024 * 1024, f"{grown / 2700:.0f} bytes for each job that waits"
    begun = time.monotonic()
    job = await deployment.submit("haunts", kind="quick")
    await deployment.started(job)
    assert time.monotonic() - begun < 1.0
    await deployment.ended(job)
    assert (await deployment.record(job)).state is State.COMPLETED
