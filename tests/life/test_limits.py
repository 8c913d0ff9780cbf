"""Limits with real consumers: how many run, how many start, and no consumer polls while a gate is closed."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tailrace.producers import Submission
from tailrace.streams.history.events import Event
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import Options
from tailrace.streams.states import TERMINAL, Status
from tailrace.streams.transitions import Transitions
from tests.life.asking import PLATFORM, STEERED, ask, at, completed, nothing_left, rules
from tests.life.conftest import lasting
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED, Pace

CALM = Pace(deadline=60.0, beat=15.0, reap=15.0)  # its heart is hardly heard: what is called is called by its reader


async def histories(deployment: Deployment, ended: Sequence[str], platform: str = PLATFORM) -> list[list[Event]]:
    return [await deployment.history(f"{platform}.{key}") for key in ended]


def most_at_a_time(told: Sequence[Sequence[Event]]) -> int:
    """The highest number of attempts that ran at one moment."""
    changes = []
    for history in told:
        for event in history:
            if event.status is Status.STARTED:
                changes.append((event.time, 1))
            elif event.status in TERMINAL or event.status in (Status.SUPERSEDED, Status.RETRYING, Status.DELAYED):
                changes.append((event.time, -1))
    running = highest = 0
    for _, change in sorted(changes):  # at the same millisecond ends come first
        running += change
        highest = max(highest, running)
    return highest


def most_in_a_window(told: Sequence[Sequence[Event]], seconds: float) -> int:
    """The highest number of starts within any window, by the times of the events."""
    starts = sorted(round(at(e.time) * 1000) for history in told for e in history if e.status is Status.STARTED)
    length = round(seconds * 1000)
    return max(sum(first <= start < first + length for start in starts) for first in starts)


async def bulk(
    deployment: Deployment, count: int, platform: str = PLATFORM, *, seconds: float = 0.0, **options: str
) -> None:
    await deployment.producer.submit_many(
        [
            Submission(
                platform,
                "drill",
                {"steps": 1 if seconds else 0, "seconds": seconds},
                f"{number}",
                Options(**{name: f"{value}-{number % 3}" for name, value in options.items()}),  # type: ignore[arg-type]
            )
            for number in range(count)
        ]
    )


@pytest.mark.parametrize(
    ("rate", "window", "jobs", "consumers"),
    [(20, 0.5, 60, 2), pytest.param(50, 1.0, 400, 4, marks=[pytest.mark.chaos, pytest.mark.timeout(120)])],
)
async def test_no_more_than_the_rate_start_in_any_window(
    deployment: Deployment, tmp_path: Path, rate: int, window: float, jobs: int, consumers: int
) -> None:
    config = rules(tmp_path, rate=rate, rate_seconds=window)
    await deployment.consumers(consumers, PLATFORM, pace=UNHURRIED, TAILRACE_CONFIG=config)
    begun = time.monotonic()
    await bulk(deployment, jobs)
    ended = await completed(deployment, jobs)
    took = time.monotonic() - begun
    told = await histories(deployment, ended)
    assert most_in_a_window(told, window) <= rate
    if consumers > 2:
        assert most_in_a_window(told, window) == rate
        assert took < 2 * jobs / rate * window + 2, "and hardly fewer"
    await nothing_left(deployment)


PAIR = """
[platforms.research]
key_rate = 5
key_rate_seconds = 0.5

[platforms.plan-generation]
max_running = 3
max_running_per_process = 2
"""


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Two workers of three platforms, each with limits of its own."""
    folder = tmp_path_factory.mktemp("pair")
    config = folder / "tailrace.toml"
    config.write_text(PAIR)
    async with lasting(folder) as deployment:
        served = ("research", "plan-generation", "kurly")
        await deployment.consumers(2, *served, pace=UNHURRIED, TAILRACE_HANDLERS=STEERED, TAILRACE_CONFIG=str(config))
        yield deployment


async def test_each_limit_key_has_its_own_rate(pair: Deployment) -> None:
    await bulk(pair, 45, limit_key="shop")
    ended = await completed(pair, 45)
    for remainder in range(3):
        told = await histories(pair, [key for key in ended if int(key) % 3 == remainder])
        assert most_in_a_window(told, 0.5) <= 5
    await nothing_left(pair)


async def test_overall_and_per_process_hold_together(pair: Deployment, tmp_path: Path) -> None:
    keys, go = PlatformKeys("plan-generation"), tmp_path / "go"
    jobs = [await ask(pair, keys.platform, "until-told", args={"file": str(go)}) for _ in range(20)]

    async def three_run() -> bool:
        return len(await pair.leases(keys.platform)) == 3

    await eventually("as many run as may", three_run)
    go.touch()
    told = list((await pair.all_ended(jobs)).values())
    assert most_at_a_time(told) == 3
    workers = await pair.beats(keys.platform)
    own = [[[e for e in history if e.workerId == worker] for history in told] for worker in workers]
    assert sorted(map(most_at_a_time, own)) in ([1, 2], [2, 2])


async def test_a_window_that_opens_is_used_at_once_although_a_limit_was_reached_before(
    deployment: Deployment, tmp_path: Path
) -> None:
    config = rules(tmp_path, rate=4, rate_seconds=0.5, max_running=2)
    await deployment.consumer(PLATFORM, pace=CALM, TAILRACE_CONFIG=config)
    await bulk(deployment, 16)
    told = await histories(deployment, await completed(deployment, 16))
    starts = sorted(at(event.time) for history in told for event in history if event.status is Status.STARTED)
    assert starts[-1] - starts[0] >= 1.49
    assert starts[-1] - starts[0] < CALM.reap, "four windows of half a second, and none waits for the heart"


async def test_jobs_of_a_limit_key_run_so_many_at_a_time_also_when_a_worker_dies(
    deployment: Deployment, tmp_path: Path
) -> None:
    config = rules(tmp_path, max_running_per_key=2, max_crashes=9)
    victim, _ = await deployment.consumers(2, PLATFORM, TAILRACE_CONFIG=config)
    await bulk(deployment, 45, seconds=0.05, limit_key="shop")
    await completed(deployment, 12)
    victim.kill_group()
    ended = await completed(deployment, 45)
    for remainder in range(3):
        told = await histories(deployment, [key for key in ended if int(key) % 3 == remainder])
        assert most_at_a_time(told) == 2
    await nothing_left(deployment)


async def calls(deployment: Deployment) -> int:
    """How many scripts were run on the server so far."""
    info = (await deployment.store.command("INFO", "commandstats")).decode()
    line = next(line for line in info.splitlines() if line.startswith("cmdstat_evalsha:"))
    return int(line.partition("calls=")[2].partition(",")[0])


async def settled(deployment: Deployment) -> int:
    """The number of calls, once a while has passed without another: the consumer has heard what it is to hear."""
    seen = 0

    async def look() -> int:
        nonlocal seen
        before, seen = seen, await calls(deployment)
        await asyncio.sleep(0.2)
        return seen if seen == before else 0

    return await eventually("no consumer is called", look)


@pytest.fixture(scope="module")
async def calm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A worker of two platforms that is hardly heard; one of them starts a job every 2.5 seconds."""
    folder = tmp_path_factory.mktemp("calm")
    async with lasting(folder) as deployment:
        config = rules(folder, rate=1, rate_seconds=2.5)
        await deployment.consumer("kurly", PLATFORM, pace=CALM, TAILRACE_CONFIG=config)
        yield deployment


async def test_a_paused_platform_is_not_asked_and_goes_on_at_once_when_it_is_resumed(calm: Deployment) -> None:
    transitions = Transitions(calm.store)
    keys = PlatformKeys("kurly")
    await transitions.pause(keys, "the test")
    job = await ask(calm, "kurly")
    before = await settled(calm)
    await asyncio.sleep(1.0)  # a consumer that polls would ask now
    assert await calls(calm) - before <= 1
    assert (await calm.record(job)).attempt == 0
    await transitions.resume(keys)
    resumed = time.time()
    history = await calm.ended(job)
    assert at(history[1].time) - resumed < CALM.reap, "it does not wait for the heart"


async def test_an_idle_consumer_wakes_when_the_window_opens_and_does_not_ask_before(
    calm: Deployment,
) -> None:
    first, second = [await ask(calm, PLATFORM) for _ in range(2)]
    start = await calm.ended(first)
    before = await calls(calm)
    await asyncio.sleep(1.5)  # the window is closed: a consumer that asks now polls
    assert await calls(calm) - before <= 2
    opened = at((await calm.started(second)).time) - at(start[1].time)
    assert 2.5 <= opened < CALM.reap


async def test_a_handler_that_is_told_to_slow_down_holds_the_whole_platform(pair: Deployment) -> None:
    shop = PlatformKeys("kurly")
    limited = await ask(pair, "kurly", "left-alone", args={"seconds": 1.5})
    others = [await ask(pair, "kurly") for _ in range(3)]
    told = await pair.all_ended([limited, *others])
    delayed = next(event for event in told[limited] if event.status is Status.DELAYED)
    assert delayed.reason == "rate"
    starts = [at(e.time) for history in told.values() for e in history if e.status is Status.STARTED]
    assert sum(start < at(delayed.until) for start in starts) == 1, "only the delayed one"
    ended = await completed(pair, 4, shop)
    assert f"kurly.{ended[0]}" == limited, "it is due, and first"
