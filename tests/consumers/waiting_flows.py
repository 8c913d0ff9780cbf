"""Handlers for flows under faults: zombies that go on after a takeover, jobs that wait in great numbers, and trees."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tailrace.consumers import Attempt, ChildFailed, GiveUp, Handlers, SyncAttempt

handles = Handlers()


class Haunted(Struct):
    folder: str
    place: str  # where the handler runs


@handles("haunted-parent")
async def haunted_parent(attempt: Attempt[Haunted]) -> Any:
    child = await attempt.spawn(f"{attempt.args.place}-haunted", attempt.args, platform="haunts")
    return await attempt.join([child])


def tries(attempt: Any, third: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """What a zombie tries, in the loop, in a thread and in a process."""
    return {
        "step": lambda: attempt.step("step 3", third),
        "checkpoint": lambda: attempt.checkpoint("of the zombie"),
        "each": lambda: attempt.each(range(3), str, batch=1),
        "submit": lambda: attempt.submit("stray", {}, platform="haunts"),
        "submit elsewhere": lambda: attempt.submit("stray", {}, platform="walks"),
        "spawn": lambda: attempt.spawn_many("stray", [{}, {}]),
        "spawn elsewhere": lambda: attempt.spawn("stray", {}, platform="walks"),
        "sleep": lambda: attempt.sleep(0.01),
        "wait_for": lambda: attempt.wait_for("nothing", timeout=0.01),
        "progress": lambda: attempt.progress(1),
    }


def hear(folder: str, verb: str, error: BaseException | None) -> None:
    """One line at once: the process may be killed."""
    with (Path(folder) / "heard").open("a") as file:
        file.write(f"{verb}: {type(error).__name__ if error else 'done'}\n")


@handles("loop-haunted")
async def haunted(attempt: Attempt[Haunted]) -> str:
    """Its first attempt stays in step 3 until it was taken over, and then tries everything; it does not obey either."""
    folder = Path(attempt.args.folder)
    for number in (1, 2):
        await attempt.step(f"step {number}", lambda: None)
    if attempt.number > 1:
        await attempt.each(range(10), str, batch=1)
        return "of the second attempt"

    async def third() -> str:
        (folder / "inside").touch()
        while not (folder / "thawed").exists():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        return "of the zombie"

    for verb, ask in tries(attempt, third).items():
        try:
            await ask()
        except BaseException as error:
            hear(attempt.args.folder, verb, error)
        else:
            hear(attempt.args.folder, verb, None)
    (folder / "tried").touch()
    return "of the zombie"


def plain_haunted(attempt: SyncAttempt[Haunted]) -> str:
    """The same in a thread or a process."""
    folder = Path(attempt.args.folder)
    for number in (1, 2):
        attempt.step(f"step {number}", lambda: None)
    if attempt.number > 1:
        attempt.each(range(10), str, batch=1)
        return "of the second attempt"

    def third() -> str:
        (folder / "inside").write_text(str(os.getpid()))
        while not (folder / "thawed").exists():
            time.sleep(0.02)
        return "of the zombie"

    for verb, ask in tries(attempt, third).items():
        try:
            ask()
        except BaseException as error:
            hear(attempt.args.folder, verb, error)
        else:
            hear(attempt.args.folder, verb, None)
    (folder / "tried").touch()
    return "of the zombie"


handles("thread-haunted", run_in="thread")(plain_haunted)
handles("process-haunted", run_in="process")(plain_haunted)


@handles("sleeps")
async def sleeps(attempt: Attempt[Any]) -> None:
    await attempt.sleep(3600)


@handles("listens")
async def listens(attempt: Attempt[Any]) -> None:
    await attempt.wait_for("approval")


@handles("awaits")
async def awaits(attempt: Attempt[Any]) -> None:
    await attempt.join([await attempt.spawn("never", {}, platform="unserved")])


@handles("quick")
async def quick(attempt: Attempt[Any]) -> None: ...


class Branch(Struct):
    widths: list[int]  # of this level and those below
    number: int
    breaks: int = -1  # the leaf of this number fails
    on_failure: Literal["fail", "collect", "ignore"] = "fail"
    effects: str = ""  # a file in which the handlers note what they did


def note(attempt: Attempt[Branch], what: str, *others: str) -> None:
    """One line, written at once: no other process writes into it."""
    line = " ".join((what, attempt.job.id, str(attempt.number), *others)) + "\n"
    file = os.open(attempt.args.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)


@handles("branch")
async def branch(attempt: Attempt[Branch]) -> list[Any]:
    """A tree: the children of each job are spread over other platforms. Gives what its leaves gave, in order."""
    here = attempt.args
    if not here.widths:
        note(attempt, "leaf")
        if here.number == here.breaks:
            raise GiveUp("this leaf breaks")
        return [here.number]
    width, *below = here.widths
    children = [
        await attempt.spawn(
            "branch",
            Branch(below, here.number * width + number, here.breaks, here.on_failure, here.effects),
            platform=f"leaf{(here.number + number) % 5}",
        )
        for number in range(width)
    ]
    try:
        parts = await attempt.join(children, on_failure=here.on_failure)
    except ChildFailed as failed:
        note(attempt, "failed", failed.job_id)
        raise
    note(attempt, "joined", *(child.id for child in children))
    return [each for part in parts for each in (part if isinstance(part, list) else [None])]


@handles("fan")
async def fan(attempt: Attempt[Any]) -> Any:
    children = await attempt.spawn_many("leaf", [{"n": n} for n in range(attempt.args["count"])], platform="leaf0")
    results = await attempt.join(children)
    return [len(results), results == list(range(len(results)))]


@handles("leaf")
async def leaf(attempt: Attempt[Any]) -> int:
    return int(attempt.args["n"])
