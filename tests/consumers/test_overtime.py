"""Overtime: a process is ended only when its runner had the time and the store to settle what is late, and did not."""

import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tailrace.consumers.heart.overtime import END_SECONDS, WARN_SECONDS, Overtime
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.streams.messages import Claim
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.consumers.instructions import told
from tests.support.builders import Desk

OBEY_SECONDS = 5.0
PATIENCE = OBEY_SECONDS + END_SECONDS  # after the warning


@pytest.fixture
async def desk(valkey_url: str) -> AsyncIterator[Desk]:
    async with Store(valkey_url) as store:
        yield Desk(store, timeout_seconds=1.0)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for a consumer."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def whole_now() -> float:
    """The next whole second: sums with it are exact, so that a time that is just over is over."""
    return float(math.ceil(time.monotonic()))


class Watch:
    """An overtime at one desk whose clock is moved by hand."""

    def __init__(self, desk: Desk, process: subprocess.Popen[bytes]) -> None:
        self.desk = desk
        self.process = process
        self.table = LeaseTable()
        to = told(desk.keys.platform, policy=desk.policy, consumer_pid=process.pid, obey_seconds=OBEY_SECONDS)
        self.overtime = Overtime(to, desk.transitions, self.table)
        self.begun = whole_now()

    async def hold(self, key: str, seconds: float = 0.0) -> Claim:
        """A job that runs and has so many seconds; 0: any time."""
        held = await self.desk.start(key)
        self.table.hold(0, held.nonce, self.begun + seconds if seconds else 0.0)
        return held

    async def look(self, seconds: float, *, ends: bool = False) -> bool:
        """Look, so many seconds after the beginning; whether the process was ended by that, as one that `ends` is."""
        await self.overtime.watch(self.begun + seconds)
        try:
            self.process.wait(20 if ends else 0.05)
        except subprocess.TimeoutExpired:
            return False
        return True


@pytest.fixture
def watch(desk: Desk, process: subprocess.Popen[bytes]) -> Iterator[Watch]:
    watch = Watch(desk, process)
    yield watch
    watch.table.close()


async def test_whoever_is_within_its_time_is_left_alone(watch: Watch) -> None:
    await watch.hold("a", seconds=100)
    await watch.hold("b")
    for seconds in (0, 50, 99):
        assert not await watch.look(seconds)


async def test_a_process_is_ended_after_a_warning_and_its_other_jobs_are_handed_back(watch: Watch) -> None:
    late = await watch.hold("late", seconds=1.0)
    other = await watch.hold("other")
    assert not await watch.look(1.0 + WARN_SECONDS)
    assert not await watch.look(WARN_SECONDS + PATIENCE)
    assert await watch.look(1.0 + WARN_SECONDS + PATIENCE, ends=True)
    desk = watch.desk
    assert (await desk.record("late")).state is State.DELAYED
    assert await desk.story("late") == ["queued", "started 1", "retrying 1"]
    assert await desk.story("other") == ["queued", "started 1", "superseded 1"]
    assert (await desk.record("other")).crashes == 0
    assert [await desk.complete(held) for held in (late, other)] == ["lost", "lost"]


async def test_a_process_that_settles_in_time_is_left_alone(watch: Watch) -> None:
    held = await watch.hold("a", seconds=1.0)
    await watch.look(1.0 + WARN_SECONDS)
    await watch.desk.complete(held)
    assert not await watch.look(60)


async def test_time_without_the_store_does_not_count(watch: Watch) -> None:
    """Nor does time in which the whole machine stood still: whoever was not warned is warned first."""
    await watch.hold("a", seconds=1.0)
    assert not await watch.look(60)  # the first look after a long time
    watch.overtime.blind()
    assert not await watch.look(120)
    assert not await watch.look(120 + PATIENCE - 1)
    assert await watch.look(120 + PATIENCE, ends=True)


async def test_an_attempt_that_was_asked_to_stop_has_the_same_time_for_it(watch: Watch) -> None:
    held = await watch.hold("a")
    await watch.desk.cancel("a")
    watch.overtime.told_consumer([held.nonce], watch.begun)
    assert not await watch.look(1.0 + WARN_SECONDS)
    watch.overtime.told_consumer([held.nonce], watch.begun)
    assert await watch.look(1.0 + WARN_SECONDS + PATIENCE, ends=True)
    assert await watch.desk.story("a") == ["queued", "started 1", "cancelling 1", "cancelled 1"]


async def test_the_time_to_stop_counts_from_when_the_attempt_was_told(watch: Watch) -> None:
    """A consumer that stops many attempts may come to one of them late."""
    held = await watch.hold("a")
    await watch.desk.cancel("a")
    watch.overtime.told_consumer([held.nonce], watch.begun - 60)
    watch.table.tell(0)
    watch.begun = whole_now()
    assert not await watch.look(WARN_SECONDS + 0.5)
    assert not await watch.look(PATIENCE)
    assert await watch.look(WARN_SECONDS + 0.5 + PATIENCE, ends=True)


async def test_an_attempt_that_is_over_and_waits_for_the_store_is_not_late(watch: Watch) -> None:
    held = await watch.hold("a", seconds=1.0)
    watch.overtime.told_consumer([held.nonce], watch.begun)
    watch.table.settle(0)
    for seconds in (10, 60):
        assert not await watch.look(seconds)


async def test_a_process_is_ended_for_an_attempt_that_lost_its_job_and_does_not_stop(watch: Watch) -> None:
    """It holds the interpreter, so that nobody can tell it: its slot would be taken for ever."""
    lost = await watch.hold("lost")
    await watch.hold("other")
    await watch.desk.reclaim(lost)
    watch.overtime.told_consumer([lost.nonce], watch.begun)
    assert not await watch.look(1.0 + WARN_SECONDS)
    assert await watch.look(1.0 + WARN_SECONDS + PATIENCE, ends=True)
    assert await watch.desk.story("lost") == ["queued", "started 1", "superseded 1"]
    assert await watch.desk.story("other") == ["queued", "started 1", "superseded 1"]
    assert ((await watch.desk.record("lost")).crashes, (await watch.desk.record("other")).crashes) == (1, 0)


async def test_hundreds_of_jobs_are_handed_back_before_their_process_is_ended(watch: Watch) -> None:
    await watch.hold("late", seconds=1.0)
    keys = [f"job-{number:03}" for number in range(150)]
    await watch.desk.submit(*keys)
    for held in await watch.desk.claim(slots=150):
        watch.table.hold(0, held.nonce)
    await watch.look(1.0 + WARN_SECONDS)
    assert await watch.look(1.0 + WARN_SECONDS + PATIENCE, ends=True)
    assert (await watch.desk.look()).leases == ()
    assert {(await watch.desk.record(key)).crashes for key in keys} == {0}


async def test_a_process_is_ended_although_its_jobs_are_corrupt(watch: Watch) -> None:
    await watch.hold("late", seconds=1.0)
    await watch.hold("other")
    await watch.desk.store.command("DEL", watch.desk.keys.record("late"))
    await watch.look(1.0 + WARN_SECONDS)
    assert await watch.look(1.0 + WARN_SECONDS + PATIENCE, ends=True)
    assert await watch.desk.story("other") == ["queued", "started 1", "superseded 1"]
