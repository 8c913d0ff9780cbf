"""A loop that was held: said once, with the kind, the job and the line."""

import asyncio
import inspect
import re
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog
from structlog.testing import LogCapture

from tailrace.consumers.watchdog import TICK_SECONDS, Suspect, Watchdog
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import Pace

LIMIT = 0.7
HERE = str(Path(__file__))


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    capture = LogCapture()
    monkeypatch.setattr("tailrace.consumers.watchdog.log", structlog.wrap_logger(None, processors=[capture]))
    return capture.entries


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def told_here(logged: list[Any], event: str = "loop_blocked") -> list[Any]:
    """What was said of this file: a machine with much else to do may hold the loop elsewhere, which is said too."""
    return [entry for entry in logged if entry["event"] == event and HERE in str(entry["at"])]


def seen_here(watchdog: Watchdog) -> bool:
    """Whether it has looked where the loop stands while a test held it."""
    return HERE in str(watchdog._sample)


async def rest() -> None:
    """Long enough for the loop to tick twice."""
    await asyncio.sleep(3 * TICK_SECONDS)


async def test_a_blocked_loop_is_named_once_with_kind_job_seconds_and_line(logged: list[Any]) -> None:
    mine = [Suspect("many.other", "other", None), Suspect("many.mine", "mine", asyncio.current_task())]
    with Watchdog(lambda: mine, LIMIT) as watchdog:
        await rest()
        line = here() + 2
        while not seen_here(watchdog):
            time.sleep(0.2)  # noqa: ASYNC251
        await rest()
    (entry,) = told_here(logged)
    assert (entry["kind"], entry["job"]) == ("mine", "many.mine")
    assert entry["seconds"] > LIMIT
    assert entry["at"] == HERE + f":{line}"
    assert "note" not in entry


@pytest.mark.chaos
async def test_each_blocking_has_a_line_of_its_own(logged: list[Any]) -> None:
    with Watchdog(list, LIMIT):
        await rest()
        first = here() + 1
        time.sleep(1.5)  # noqa: ASYNC251
        await rest()
        second = here() + 1
        time.sleep(1.5)  # noqa: ASYNC251
        await rest()
    assert [(entry["event"], entry["at"]) for entry in logged] == [
        ("loop_blocked", HERE + f":{first}"),
        ("loop_blocked", HERE + f":{second}"),
    ]


async def test_a_blocking_that_lasts_is_told_meanwhile(logged: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.consumers.watchdog.STILL_SECONDS", 1.0)
    with Watchdog(list, LIMIT):
        await rest()
        end = time.monotonic() + 50
        while not told_here(logged, "loop_still_blocked") and time.monotonic() < end:
            pass
        assert told_here(logged) == []
        await rest()
    assert (len(told_here(logged, "loop_still_blocked")), len(told_here(logged))) == (1, 1)


async def test_a_line_in_a_library_is_told_with_the_line_that_led_there(logged: list[Any]) -> None:
    with Watchdog(list, LIMIT) as watchdog:
        await rest()
        while not seen_here(watchdog):
            threading.Event().wait(0.2)
        await rest()
    (entry,) = told_here(logged)
    assert "threading.py:" in entry["at"]
    assert f"called at {HERE}" in entry["at"]
    assert entry["kind"] is None


@pytest.mark.chaos
async def test_code_that_holds_the_interpreter_is_told_afterwards(
    logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.process_time", time.monotonic)  # as if nothing else ran on the machine
    length, took = 23, 0.0
    with Watchdog(lambda: [Suspect("many.mine", "mine", None)], LIMIT):
        await rest()
        while took < 1.5:
            begun = time.monotonic()
            re.match(r"(a+)+$", "a" * length + "!")
            took = time.monotonic() - begun
            length += 1
            await rest()
    last = logged[-1]
    assert (last["event"], last["kind"]) == ("loop_blocked", "mine")
    assert "seen only afterwards" in last["note"]
    assert last["seconds"] > 1.0


async def test_a_loop_that_gives_way_is_not_warned_of(logged: list[Any]) -> None:
    with Watchdog(list, 60.0):
        await rest()
    assert logged == []


async def test_its_thread_ends_with_it() -> None:
    with Watchdog(list):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}

    async def ended() -> bool:
        return "watchdog" not in {thread.name for thread in threading.enumerate()}

    await eventually("the thread has ended", ended)


async def test_a_consumer_names_the_drill_that_holds_its_loop(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research")
    job = await deployment.submit("research", steps=1, seconds=2.5, block="spin")
    await deployment.ended(job)

    async def named() -> list[dict[str, Any]]:
        return [line for line in consumer.said("loop_blocked") if line["job"] == job]

    (told,) = await eventually("the log names the job", named)
    assert told["kind"] == "drill"
    assert told["seconds"] >= 1.0
    assert "drill.py:" in told["at"]


async def test_a_consumer_that_was_stopped_accuses_nobody(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research", pace=Pace(deadline=60))
    await deployment.started(await deployment.submit("research", steps=1, seconds=60))
    consumer.freeze()
    await asyncio.sleep(1.5)  # it must stand still for longer than the limit
    consumer.thaw()

    async def told() -> list[dict[str, Any]]:
        return consumer.said("loop_blocked")

    for line in await eventually("the log says so", told):
        assert "stood still" in line["note"]
        assert line["kind"] is None


@pytest.mark.chaos
async def test_an_idle_consumer_costs_next_to_nothing(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research")
    process = psutil.Process(consumer.pid)
    await asyncio.sleep(1)  # what is left of its start
    before = sum(process.cpu_times()[:2])
    await asyncio.sleep(5)  # measured over this time
    assert sum(process.cpu_times()[:2]) - before <= 0.1
