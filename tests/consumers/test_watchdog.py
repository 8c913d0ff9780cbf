"""A loop that was held: said once, with the kind, the job and the line."""

import asyncio
import inspect
import json
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
from tests.support.processes import ConsumerProcess, Pace

LIMIT = 0.4
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


async def rest() -> None:
    """Long enough for the loop to tick twice."""
    await asyncio.sleep(3 * TICK_SECONDS)


async def test_a_blocked_loop_is_named_once_with_kind_job_seconds_and_line(logged: list[Any]) -> None:
    mine = [Suspect("many.other", "other", None), Suspect("many.mine", "mine", asyncio.current_task())]
    with Watchdog(lambda: mine, LIMIT):
        await rest()
        line = here() + 1
        time.sleep(1.5)  # noqa: ASYNC251 - that is the point
        await rest()
    (entry,) = logged
    assert entry["event"] == "loop_blocked"
    assert (entry["kind"], entry["job"]) == ("mine", "many.mine")
    assert 1.0 < entry["seconds"] < 10
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
        end = time.monotonic() + 3
        while time.monotonic() < end:
            pass
        assert [entry["event"] for entry in logged] == ["loop_still_blocked"]
        await rest()
    assert [entry["event"] for entry in logged] == ["loop_still_blocked", "loop_blocked"]


async def test_a_line_in_a_library_is_told_with_the_line_that_led_there(logged: list[Any]) -> None:
    with Watchdog(list, LIMIT):
        await rest()
        threading.Event().wait(1.5)
        await rest()
    (entry,) = logged
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
    with Watchdog(list, 5.0):
        for _ in range(100):
            await asyncio.sleep(0.01)
    assert logged == []


async def test_its_thread_ends_with_it() -> None:
    with Watchdog(list):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}

    async def ended() -> bool:
        return "watchdog" not in {thread.name for thread in threading.enumerate()}

    await eventually("the thread has ended", ended)


async def blocked(consumer: ConsumerProcess, event: str = "loop_blocked") -> dict[str, Any]:
    async def look() -> list[dict[str, Any]]:
        return consumer.said(event)

    return (await eventually(f"the log has {event}", look))[0]


async def test_a_consumer_names_the_drill_that_holds_its_loop(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research")
    job = await deployment.submit("research", steps=1, seconds=2.5, block="spin")
    await deployment.ended(job)
    told = await blocked(consumer)
    assert (told["kind"], told["job"]) == ("drill", job)
    assert 1.0 <= told["seconds"] < 20
    assert "drill.py:" in told["at"]
    assert len(consumer.said("loop_blocked")) == 1, json.dumps(consumer.said("loop_blocked"))


async def test_a_consumer_that_was_stopped_accuses_nobody(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research", pace=Pace(deadline=60))
    await deployment.started(await deployment.submit("research", steps=1, seconds=60))
    consumer.freeze()
    await asyncio.sleep(2.5)  # it must stand still for longer than the limit
    consumer.thaw()
    told = await blocked(consumer)
    assert "stood still" in told["note"]
    assert told["kind"] is None


@pytest.mark.chaos
async def test_an_idle_consumer_costs_next_to_nothing(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research")
    process = psutil.Process(consumer.pid)
    await asyncio.sleep(1)  # what is left of its start
    before = sum(process.cpu_times()[:2])
    await asyncio.sleep(5)  # measured over this time
    assert sum(process.cpu_times()[:2]) - before <= 0.1
