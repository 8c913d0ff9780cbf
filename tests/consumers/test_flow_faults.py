"""Flows when a worker freezes in the middle, and when thousands of jobs wait."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from tailrace.producers import Submission
from tailrace.streams import PlatformKeys
from tailrace.streams.states import State
from tests.consumers.stepping import PLACES
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED

FILE = str(Path(__file__).with_name("waiting_flows.py"))
TRIES = 10  # verbs that each zombie tries
CONFIG = "[platforms.haunts]\n[platforms.walks]\n[platforms.unserved]\n"


@pytest.fixture
async def deployment(valkey_url: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with Deployment(valkey_url, tmp_path, CONFIG) as deployment:
        yield deployment


async def test_a_zombie_thawed_inside_a_step_saves_submits_spawns_and_wakes_nothing(
    deployment: Deployment, tmp_path: Path
) -> None:
    zombie, _ = await asyncio.gather(
        *(deployment.consumer(platform, TAILRACE_HANDLERS=FILE) for platform in ("haunts", "walks"))
    )
    folders, parents = {place: tmp_path / place for place in PLACES}, {}
    for place, folder in folders.items():
        folder.mkdir()
        args = {"folder": str(folder), "place": place}
        parents[place] = (await deployment.producer.submit(Submission("walks", "haunted-parent", args, place))).id
    for folder in folders.values():
        await eventually("the child is inside step 3", anyio.Path(folder / "inside").exists)
    heart, worker = zombie.heart, int((folders["process"] / "inside").read_text())
    assert worker != zombie.pid
    os.kill(worker, signal.SIGSTOP)
    zombie.freeze()
    await deployment.consumer("haunts", TAILRACE_HANDLERS=FILE)
    histories = {place: await deployment.ended(parents[place]) for place in PLACES}
    for folder in folders.values():
        (folder / "thawed").touch()
    for frozen in (worker, zombie.pid):  # its heart, which would tell it what it has lost, comes last
        os.kill(frozen, signal.SIGCONT)
    for place, folder in folders.items():
        await eventually(f"the zombie in a {place} has tried everything", anyio.Path(folder / "tried").exists)
        heard = dict(line.split(": ") for line in (folder / "heard").read_text().splitlines())
        assert len(heard) == TRIES
        assert heard["step"] == "Lost", "the store refused it"
        assert {*heard.values()} <= {"Lost", "Cancelled", "CancelledError"}, f"{place}: {heard}"
    with suppress(ProcessLookupError):  # its consumer has killed it for its silence
        os.kill(heart, signal.SIGCONT)

    async def settled() -> bool:
        return len(zombie.said("attempt_lost")) == len(PLACES)

    await eventually("what the zombies returned was refused", settled)
    for place in PLACES:
        assert histories[place][-1].result == ["of the second attempt"]
        assert await deployment.history(parents[place]) == histories[place], "nothing woke the parent again"
        (child,) = await deployment.store.command("HKEYS", PlatformKeys("walks").children(place))
        steps = await deployment.store.command(
            "HGETALL", PlatformKeys("haunts").steps(child.decode().partition(".")[2])
        )
        saved = dict(zip(steps[::2], steps[1::2], strict=True))
        assert saved == {b"step 1": b"null", b"step 2": b"null", b"@each 1": b'{"done":10}'}
    keys = [key.decode() for key in await deployment.store.command("KEYS", "tr:*}:job:*")]
    assert len(keys) == 2 * len(PLACES), "no stray job"
    assert await deployment.store.command("KEYS", "tr:*:outbox") == []


@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_three_thousand_jobs_that_wait_hold_neither_slot_nor_memory(
    deployment: Deployment, tell: Callable[[str], None]
) -> None:
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
    waited = []
    for _ in range(20):
        begun = time.monotonic()
        job = await deployment.submit("haunts", kind="quick")
        await deployment.started(job)
        waited.append(time.monotonic() - begun)
        await deployment.ended(job)
        assert (await deployment.record(job)).state is State.COMPLETED
    tell(f"3000 wait: {grown / 1024:.0f} KB more for 2700 of them, others start within {1000 * max(waited):.0f} ms")
    assert max(waited) < 1.0
