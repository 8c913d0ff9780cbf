"""A job of five steps whose worker is killed -9 again and again: saved steps never run again."""

from collections.abc import AsyncIterator
from itertools import chain
from pathlib import Path

import pytest

from tailrace.producers import Submission
from tailrace.streams.history.events import Event
from tailrace.streams.options import Options
from tests.consumers.stepping import PLACES, STEPS
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

FILE = Path(__file__).with_name("stepping.py")
EVERY_POINT = list(chain.from_iterable((f"in {step}", f"after {step}") for step in range(1, STEPS + 1)))


@pytest.fixture
async def deployment(valkey_url: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with Deployment(valkey_url, tmp_path, "[platforms.walks]\nmax_crashes = 50\n") as deployment:
        yield deployment


async def test_saved_steps_never_run_again_and_the_step_in_flight_once_per_attempt(
    deployment: Deployment, tmp_path: Path
) -> None:
    await killed_at(deployment, tmp_path, ["in 3", "after 3"])


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_the_same_with_a_death_in_each_step_and_after_each(deployment: Deployment, tmp_path: Path) -> None:
    await killed_at(deployment, tmp_path, EVERY_POINT)


async def killed_at(deployment: Deployment, folder: Path, stops: list[str]) -> None:
    """One job for each place, on one consumer, which dies when all of them have come to the next stop."""
    jobs = {}
    for place in PLACES:
        (folder / place).mkdir()
        args = {"folder": str(folder / place), "stops": stops}
        jobs[place] = (
            await deployment.producer.submit(Submission("walks", f"{place}-walk", args, place, Options()))
        ).id
    for attempt in range(1, len(stops) + 1):
        consumer = await deployment.consumer("walks", TAILRACE_HANDLERS=str(FILE))

        async def reached(attempt: int = attempt) -> bool:
            return all((folder / place / f"reached {attempt}").exists() for place in PLACES)

        await eventually(f"attempt {attempt} of each has come to {stops[attempt - 1]!r}", reached)
        consumer.kill_group()
    await deployment.consumer("walks", TAILRACE_HANDLERS=str(FILE))
    for place, job in jobs.items():
        history = await deployment.ended(job)
        runs = (folder / place / "effects").read_text().splitlines()
        assert runs == expected_runs(stops), place
        assert history[-1].result == expected_attempts(stops), place
        assert_each_attempt_goes_on(history, stops)


def expected_runs(stops: list[str]) -> list[str]:
    """The step in flight runs in the attempt that dies in it, and again in the next one; a saved one never again."""
    lines, saved = [], 0
    for attempt, stop in enumerate([*stops, f"after {STEPS}"], start=1):
        where, step = stop.split()
        lines += [f"step {number} attempt {attempt}" for number in range(saved + 1, int(step) + 1)]
        saved = int(step) - (where == "in")
    return lines


def expected_attempts(stops: list[str]) -> list[int]:
    """Which attempt each step's saved result is of."""
    of = {}
    for line in expected_runs(stops):
        _, step, _, attempt = line.split()
        of[int(step)] = int(attempt)
    return [of[step] for step in range(1, STEPS + 1)]


def assert_each_attempt_goes_on(history: list[Event], stops: list[str]) -> None:
    """The history of each attempt says which steps were saved before it."""
    saved = 0
    for attempt, stop in enumerate([*stops, ""], start=1):
        resumed = [event.message for event in history if event.attempt == attempt and event.step == "resumed"]
        names = ", ".join(f"step {number}" for number in range(1, saved + 1))
        assert resumed == ([f"saved before: {names}"] if names else [])
        if stop:
            where, step = stop.split()
            saved = int(step) - (where == "in")
