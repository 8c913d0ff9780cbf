"""Handlers with five steps each, in the loop, in a thread and in a process: `loop-walk`, `thread-walk`, `process-walk`.

Each step leaves a line in the side-effect file. At the points that `stops` names an attempt waits to be killed.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tailrace.consumers import Attempt, Handlers, SyncAttempt

handles = Handlers()

STEPS = 5
PLACES = ("loop", "thread", "process")


class Walk(Struct):
    folder: str
    stops: list[str] = []  # by attempt: `in 3` or `after 3`; an attempt without one goes on to the end


class Found(Struct):
    step: int
    attempt: int


def note(walk: Walk, line: str) -> None:
    with (Path(walk.folder) / "effects").open("a") as file:
        file.write(f"{line}\n")


def waits_here(walk: Walk, attempt: int, point: str) -> bool:
    """Whether this attempt is to be killed here; the file says that it has come so far."""
    if walk.stops[attempt - 1 : attempt] != [point]:
        return False
    (Path(walk.folder) / f"reached {attempt}").touch()
    return True


def found(walk: Walk, attempt: int, step: int) -> Found:
    note(walk, f"step {step} attempt {attempt}")
    if waits_here(walk, attempt, f"in {step}"):
        time.sleep(600)
    return Found(step, attempt)


@handles("loop-walk")
async def in_loop(attempt: Attempt[Walk]) -> list[int]:
    walk, seen = attempt.args, []

    async def find(step: int) -> Found:
        note(walk, f"step {step} attempt {attempt.number}")
        if waits_here(walk, attempt.number, f"in {step}"):
            await asyncio.sleep(600)
        return Found(step, attempt.number)

    for number in range(1, STEPS + 1):
        step = await attempt.step(f"step {number}", find, number)
        await attempt.progress(number, of=STEPS)
        if waits_here(walk, attempt.number, f"after {number}"):
            await asyncio.sleep(600)
        seen.append(step.attempt)
    return seen


def plain(attempt: SyncAttempt[Walk]) -> list[int]:
    walk, seen = attempt.args, []
    for number in range(1, STEPS + 1):
        step = attempt.step(f"step {number}", found, walk, attempt.number, number)
        attempt.progress(number, of=STEPS)
        if waits_here(walk, attempt.number, f"after {number}"):
            time.sleep(600)
        seen.append(step.attempt)
    return seen


handles("thread-walk", run_in="thread")(plain)
handles("process-walk", run_in="process")(plain)


def kinds(values: dict[str, Any]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in values.items()}


def whole() -> Found:
    return Found(1, 1)


def many(count: int, *, first: int = 1) -> list[Found]:
    return [Found(first + number, 1) for number in range(count)]


def pair() -> tuple[int, str]:
    return 1, "one"


async def later() -> Found | None:
    return Found(2, 1)


@handles("loop-typed", backoff=lambda failures: 0.01)
async def typed_in_loop(attempt: Attempt[Any]) -> dict[str, Any]:
    one, some = await attempt.step("one", whole), await attempt.step("some", many, 2, first=5)
    two, maybe = await attempt.step("two", pair), await attempt.step("maybe", later)
    if attempt.number == 1:
        raise RuntimeError("once more")
    return {**kinds({"one": one, "some": some[0], "two": two, "maybe": maybe}), "step": some[1].step}


def typed(attempt: SyncAttempt[Any]) -> dict[str, Any]:
    one, some = attempt.step("one", whole), attempt.step("some", many, 2, first=5)
    two, maybe = attempt.step("two", pair), attempt.step("maybe", whole)
    if attempt.number == 1:
        raise RuntimeError("once more")
    return {**kinds({"one": one, "some": some[0], "two": two, "maybe": maybe}), "step": some[1].step}


def misused(attempt: SyncAttempt[Any]) -> list[str]:
    heard = []
    misuses: list[tuple[str, Callable[[], Any]]] = [
        ("twice", whole),
        ("twice", whole),
        ("large", lambda: "x" * 300_000),
        ("unkept", object),
        ("async", later),
        ("@ours", whole),
    ]
    for name, function in misuses:
        try:
            attempt.step(name, function)
        except (TypeError, ValueError) as error:
            heard.append(f"{type(error).__name__}: {error}")
    return heard


for place in ("thread", "process"):
    handles(f"{place}-typed", run_in=place, backoff=lambda failures: 0.01)(typed)
    handles(f"{place}-misused", run_in=place)(misused)
