"""Drain: workers come and go under load, by signal or by request, and no job notices."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tailrace.ops.up.children import Family, KeptChild
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.process.data_folder import find_running
from tailrace.streams.states import State, Status
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.life.asking import STEERED, ask
from tests.ops.up_process import Up
from tests.support.builders import tell
from tests.support.checker import unclean
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED, ConsumerProcess, Pace

PLATFORMS = ("research", "kurly")
JOBS_AT_A_TIME = 24


async def roll(deployment: Deployment, count: int, rounds: int) -> int:
    """Replace each of `count` workers by another, again and again, while jobs come in; how many jobs there were."""
    patient, hasty = UNHURRIED, replace(UNHURRIED, grace=0.0)  # one lets its jobs finish, the other hands them back
    workers = await deployment.consumers(count, *PLATFORMS, pace=patient)
    rolling = True

    async def load() -> None:
        number = 0
        while rolling:
            number += 1
            await ask(deployment, PLATFORMS[number % 2], args={"steps": 3, "seconds": 0.02}, keep_seconds=3600)
            lines = (PlatformKeys(platform).jobs("normal") for platform in PLATFORMS)
            unended = sum([await deployment.store.command("XLEN", line) for line in lines])
            await asyncio.sleep(0.5 if unended > JOBS_AT_A_TIME else 0.01)

    loading = asyncio.get_running_loop().create_task(load())
    for number in range(rounds):
        starting = asyncio.create_task(deployment.consumers(count, *PLATFORMS, pace=hasty if number % 2 else patient))
        for worker in workers:
            worker.interrupt()
            assert await worker.ended() == 0
        workers = await starting
    rolling = False
    await loading
    histories = await deployment.all_ended(deployment.accepted)
    assert unclean(histories) == []
    assert {history[-1].status for history in histories.values()} == {Status.COMPLETED}
    for job, history in histories.items():
        record = await deployment.record(job)
        assert (record.state, record.failures, record.crashes) == (State.COMPLETED, 0, 0)
        assert "lost" not in {event.reason for event in history}
    return len(histories)


async def test_workers_replaced_one_by_one_under_load_lose_nothing(
    deployment: Deployment, tell: Callable[[str], None]
) -> None:
    tell(f"2 workers were replaced 4 times while {await roll(deployment, 2, 4)} jobs were done")


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_four_workers_replaced_ten_times_under_load_lose_nothing(
    deployment: Deployment, tell: Callable[[str], None]
) -> None:
    tell(f"4 workers were replaced 10 times while {await roll(deployment, 4, 10)} jobs were done")


async def test_a_worker_whose_handler_never_stops_still_leaves_when_it_is_told_to(deployment: Deployment) -> None:
    worker = await deployment.consumer("kurly", pace=Pace(grace=0.2), TAILRACE_HANDLERS=STEERED)
    job = await ask(deployment, "kurly", "never-stops")
    await deployment.reached(job, 1)
    worker.interrupt()
    assert await worker.ended() == 0
    assert [tell(event) for event in await deployment.history(job)][-1] == "superseded 1"


async def test_a_restart_drains_the_workers_of_its_platform_alone(deployment: Deployment) -> None:
    starting = (deployment.consumer(platform) for platform in ("kurly", "kurly", "ably"))
    first, second, other = await asyncio.gather(*starting)
    job = await ask(deployment, "kurly", args={"steps": 5, "seconds": 0.1})
    await deployment.reached(job, 1)
    meant = [first.owner, second.owner]
    assert await Transitions(deployment.store).restart(PlatformKeys("kurly"), "once", meant) == 1
    assert [await worker.ended() for worker in (first, second)] == [75, 75]
    history = await deployment.history(job)
    assert (history[-1].status, history[-1].attempt) == (Status.COMPLETED, 1)

    newcomer = await deployment.consumer("kurly")  # the request was not meant for it
    await deployment.ended(await ask(deployment, "kurly"))
    await beats(deployment, newcomer, 3)
    assert newcomer.alive
    assert other.alive


async def beats(deployment: Deployment, worker: ConsumerProcess, count: int) -> None:
    platform = worker.said("consumer_started")[0]["platforms"]

    async def look() -> bool:
        return int((await deployment.beats(platform)).get(worker.owner, "0")) > count

    await eventually("some beats", look)


def test_whoever_leaves_to_be_restarted_is_started_at_once_and_as_often_as_it_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = tmp_path / "starts"
    family = Family("redis://127.0.0.1:1", tmp_path / "logs")
    child = KeptChild(family, "child", ["sh", "-c", f"echo started >> {marks}; exit 75"])

    async def started_often() -> bool:
        return marks.exists() and len(marks.read_text().split()) >= 12

    async def supervise() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.keep)
            await eventually("a dozen starts", started_often)
            child.kill()
            await child.ended.wait()

    anyio.run(supervise)  # as `up` runs it
    family.close()
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "was asked to restart; another starts now" not in line] == [], "without a pause"


async def test_up_starts_a_worker_anew_that_was_asked_to_restart(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "kurly")
    try:
        await asyncio.to_thread(up.wait_until_ready)
        before = await asyncio.to_thread(up.wait_for_consumer, "kurly")
        url = find_running(tmp_path / "data")
        assert url
        keys = PlatformKeys("kurly")
        async with Store(url) as store:

            async def serves() -> bool:
                return bool(await store.command("HLEN", keys["beats"]))

            await eventually("it beats", serves)
            (beats,) = await Transitions(store).observe([keys])
            assert await Transitions(store).restart(keys, "once", beats) == 1
        await asyncio.to_thread(up.wait_until, "it ended", lambda: not before.is_running())
        after = await asyncio.to_thread(up.wait_for_consumer, "kurly")
        assert after.pid != before.pid
        assert "was asked to restart; another starts now" in up.said()
    finally:
        up.process.terminate()
        await asyncio.to_thread(up.process.wait, 20)


def test_a_child_that_cannot_be_started_is_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No room for its log, no process to be had: one sentence a try, and it starts when it can."""
    family = Family("redis://127.0.0.1:1", tmp_path)
    family.log("child").mkdir()  # it cannot be opened for writing
    child = KeptChild(family, "child", ["sleep", "60"])
    said: list[str] = []

    async def refused() -> bool:
        said.append(capsys.readouterr().err)
        return "child cannot be started (Is a directory); another try in" in "".join(said)

    async def started() -> bool:
        return family.log("child").is_file()

    async def supervise() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.keep)
            await eventually("it says that it cannot be started", refused)
            family.log("child").rmdir()
            await eventually("it starts", started)
            child.kill()
            await child.ended.wait()

    anyio.run(supervise)  # as `up` runs it
    family.close()
