"""Schedules with real consumers: each tick once and none missing, whatever happens to the processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.schedules import Schedules
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Options
from tailrace.streams.schedules import Schedule
from tailrace.streams.states import State
from tailrace.streams.transitions import Transitions
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled

Tell = Callable[[str], None]

KEYS = PlatformKeys("research")
SECOND = 1000


class Clockwork:
    """Schedules of one platform that tick each second, and the ledger of what they must have brought."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.store = deployment.store
        self.schedules = Schedules(Transitions(deployment.store), BUILT_IN)
        self.first: dict[str, int] = {}

    async def begin(self, count: int, **said: Any) -> None:
        """Each one's jobs take no time and are kept until they were counted."""
        usual = {"platform": "research", "kind": "drill", "args": {"steps": 0}, "every_seconds": 1, "missed": "all"}
        for number in range(count):
            wanted = Schedule(**{**usual, "name": f"n{number:03}", **said})
            planned = await self.schedules.upsert(wanted)
            assert planned.next_ms is not None
            self.first[wanted.name] = planned.next_ms

    async def ticked(self, times: int, *, seconds: float = 60.0) -> None:
        """Wait until the slowest schedule has this many ticks behind it."""

        async def look() -> bool:
            return all(tick - self.first[name] >= times * SECOND for name, tick in (await self.places()).items())

        await eventually(f"every schedule ticked {times} times", look, seconds=seconds)

    async def places(self, key: str = KEYS["ticks"]) -> dict[str, int]:
        flat = await self.store.command("ZRANGE", key, 0, -1, "WITHSCORES")
        return {name.decode(): int(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}

    async def stop(self) -> list[str]:
        """Let nothing tick any more, from one moment on; the keys of all jobs that must have come by then."""
        stopped = f"{KEYS['ticks']}:stopped"  # in the same slot
        await self.store.command("RENAME", KEYS["ticks"], stopped)
        places = await self.places(stopped)
        assert places.keys() == self.first.keys()
        return [f"{name}-{tick}" for name, last in places.items() for tick in range(self.first[name], last, SECOND)]

    async def ended(self, *, seconds: float = 60.0) -> None:
        async def look() -> bool:
            return bool(await self.store.command("XLEN", KEYS.jobs("normal")) == 0)

        await eventually("every job ended", look, seconds=seconds)

    async def accepted(self) -> int:
        """How many jobs ever came in line."""
        info = await self.store.command("XINFO", "STREAM", KEYS.jobs("normal"))
        return int(info[info.index(b"entries-added") + 1])

    async def lateness(self, keys: list[str]) -> list[int]:
        """By how many milliseconds each job came after its tick; every one of them has ended once, and completed."""
        late = []
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            records = await self.store.commands([("HMGET", KEYS.record(key), "state", "entry") for key in some])
            logs = await self.store.commands([("LRANGE", KEYS.log(key), 0, -1) for key in some])
            for key, (state, entry), events in zip(some, records, logs, strict=True):
                assert state == b"completed", f"{key} is {state}"
                assert sum(b" completed " in event for event in events) == 1, key
                late.append(int(entry.split(b"-")[0]) - int(key.rpartition("-")[2]))
        return late


async def every_tick_once(deployment: Deployment, tell: Tell, *, count: int, seconds: int) -> None:
    """Three consumers, one of them killed with its heart in the middle."""
    clockwork = Clockwork(deployment)
    consumers = await deployment.consumers(3, "research")
    await clockwork.begin(count, options=Options(keep_seconds=3600))
    await clockwork.ticked(seconds // 2)
    consumers[1].kill_group()
    await clockwork.ticked(seconds)
    wanted = await clockwork.stop()
    await clockwork.ended(seconds=120)
    assert len(wanted) >= count * seconds
    assert await clockwork.accepted() == len(wanted), "none came twice, and none without a tick"
    late = await clockwork.lateness(wanted)
    tell(f"{len(wanted)} ticks of {count} schedules, late by {median(late):g} ms at the median, {max(late)} ms at most")


async def test_each_tick_comes_once_and_none_is_missing(deployment: Deployment, tell: Tell) -> None:
    await every_tick_once(deployment, tell, count=150, seconds=6)


@pytest.mark.chaos
@pytest.mark.timeout(400)
async def test_a_thousand_schedules_tick_each_second_through_the_loss_of_a_process(
    deployment: Deployment, tell: Tell
) -> None:
    await every_tick_once(deployment, tell, count=1000, seconds=scaled(30))


async def test_what_was_missed_while_nobody_ran_is_made_up_for(deployment: Deployment) -> None:
    clockwork = Clockwork(deployment)
    consumer = await deployment.consumer("research")
    await clockwork.begin(3, options=Options(keep_seconds=3600))
    await clockwork.ticked(1)
    consumer.kill_group()
    await asyncio.sleep(3)  # the time without a consumer
    await deployment.consumer("research")
    await clockwork.ticked(5)
    wanted = await clockwork.stop()
    await clockwork.ended()
    assert await clockwork.accepted() == len(wanted)
    assert max(await clockwork.lateness(wanted)) >= SECOND, "some came later than they should have"


async def test_a_handler_that_holds_its_interpreter_delays_no_tick(deployment: Deployment) -> None:
    clockwork = Clockwork(deployment)
    await deployment.consumer("research")
    blocked = await deployment.submit("research", steps=1, seconds=6.0, block="sleep")
    await deployment.started(blocked)
    await clockwork.begin(1)
    await clockwork.ticked(2)
    assert (await deployment.record(blocked)).state is State.RUNNING, "it still holds the loop"


async def test_a_schedule_goes_on_although_each_of_its_jobs_fails(deployment: Deployment) -> None:
    clockwork = Clockwork(deployment)
    await deployment.consumer("research")
    failing = {"steps": 1, "seconds": 0, "fail_times": 9}
    await clockwork.begin(1, args=failing, options=Options(attempts=1))
    await clockwork.ticked(3)
    (name, first), *_ = clockwork.first.items()
    events = await deployment.ended(f"research.{name}-{first}")
    assert events[-1].status == "failed"


# The configuration file

NIGHTLY = """
[schedules.nightly]
platform = "research"
kind = "drill"
cron = "0 3 * * *"
tz = "Europe/Berlin"

[schedules.elsewhere]
platform = "kurly"
kind = "drill"
every_seconds = 3600
"""


async def test_schedules_of_the_file_are_kept_when_a_consumer_of_their_platform_starts(
    deployment: Deployment, tmp_path: Path
) -> None:
    config = tmp_path / "tailrace.toml"
    config.write_text(NIGHTLY)
    schedules = Schedules(Transitions(deployment.store), BUILT_IN)
    first = await deployment.consumer("research", TAILRACE_CONFIG=str(config))
    (planned,) = await schedules.list()
    assert planned.schedule.name == "nightly", "the other one is not for this consumer"
    first.kill_group()
    await deployment.store.command("ZADD", KEYS["ticks"], 4_000_000_000_000, "nightly")
    await schedules.list()
    second = await deployment.consumer("research", TAILRACE_CONFIG=str(config))
    assert (await schedules.get("research", "nightly")).next_ms == 4_000_000_000_000, "an unchanged one keeps its tick"
    second.kill_group()
    config.write_text(NIGHTLY.replace("0 3 *", "0 4 *"))
    await deployment.consumer("research", TAILRACE_CONFIG=str(config))
    changed = await schedules.get("research", "nightly")
    assert changed.schedule.cron == "0 4 * * *"
    assert changed.next_ms is not None
    assert changed.next_ms < 4_000_000_000_000


@pytest.mark.parametrize("wrong", ['cron = "0 0 30 2 *"', 'cron = "0 3 * * *"\nargs = { steps = -1 }'])
async def test_a_wrong_schedule_in_the_file_stops_the_consumer_and_is_named(
    deployment: Deployment, tmp_path: Path, wrong: str
) -> None:
    config = tmp_path / "tailrace.toml"
    config.write_text(f'[schedules.nightly]\nplatform = "research"\nkind = "drill"\n{wrong}\n')
    consumer = deployment.start_consumer("research", TAILRACE_CONFIG=str(config))
    assert await consumer.ended() == 78
    assert f"TAILRACE_CONFIG: {config}: schedule nightly: " in consumer.log.read_text()
