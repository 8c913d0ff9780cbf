"""Walks over many items, in the loop, in a thread and in a process. Each item leaves a line in the side-effect file; at
the items that `stops` names, an attempt waits to be killed."""

import asyncio
import time
from pathlib import Path

from msgspec import Struct

from tailrace.consumers import Attempt, Handlers, SyncAttempt

handles = Handlers()

PLACES = ("loop", "thread", "process")
ITEMS, BATCH = 1400, 50


class Walk(Struct):
    folder: str
    stops: list[int]  # by attempt; an attempt without one goes on to the end


def waits_here(walk: Walk, attempt: int, item: int) -> bool:
    with (Path(walk.folder) / "effects").open("a") as file:
        file.write(f"{attempt} {item}\n")
    if walk.stops[attempt - 1 : attempt] != [item]:
        return False
    (Path(walk.folder) / f"reached {attempt}").touch()
    return True


@handles("loop-items")
async def in_loop(attempt: Attempt[Walk]) -> int:
    async def look(item: int) -> None:
        if waits_here(attempt.args, attempt.number, item):
            await asyncio.sleep(600)

    return (await attempt.each(range(ITEMS), look, batch=BATCH)).done


def plain(attempt: SyncAttempt[Walk]) -> int:
    def look(item: int) -> None:
        if waits_here(attempt.args, attempt.number, item):
            time.sleep(600)

    return attempt.each(range(ITEMS), look, batch=BATCH).done


handles("thread-items", run_in="thread")(plain)
handles("process-items", run_in="process")(plain)
