"""`drill`: submit a short job to each platform, and say which of them were done, how fast and by which worker."""

import argparse
import time
from functools import partial

import anyio
from msgspec import Struct, to_builtins

from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import print_json, say
from tailrace.streams.errors import JobCancelled, JobFailed, WrongField

KEEP_SECONDS = 60.0  # nothing needs the record of a drill later


class Drilled(Struct):
    """The result of the drill of one platform."""

    platform: str
    job: str = ""
    status: str = "waiting"
    seconds: float | None = None  # from the submit to the end
    worker: str | None = None


def run(options: argparse.Namespace) -> int:
    if options.seconds <= 0:
        raise WrongField("--seconds", "must be above 0", options.seconds)
    found = ask(options, partial(drill, options))
    if options.json:
        print_json(to_builtins(found))
    else:
        rows = Rows(("platform", "status", "seconds", "worker", "job"), whole=("platform", "job"), leaving=("worker",))
        for each in found:
            took = "" if each.seconds is None else f"{each.seconds:.3f}"
            rows.add(each.platform, each.status, took, each.worker or "", each.job)
        rows.show()
    late = [each.platform for each in found if each.status != "completed"]
    if late:
        say(f"tailrace: not done within {options.seconds:g} s: {', '.join(late)}; see `show JOB` for why it waits")
    return 1 if late else 0


async def drill(options: argparse.Namespace, reached: Reached) -> list[Drilled]:
    if "drill" not in reached.settings.kinds.built_in:
        raise WrongField("drill", "the built-in kinds are left out by builtins = false; submit a kind of your own")
    chosen = [reached.platforms.known(name) for name in options.platforms] or list(reached.platforms)
    found = [Drilled(platform) for platform in chosen]
    async with anyio.create_task_group() as tasks:
        for each in found:
            tasks.start_soon(one, reached, each, options.seconds)
    return found


async def one(reached: Reached, drilled: Drilled, seconds: float) -> None:
    begun = time.monotonic()
    args = {"steps": 1, "seconds": 0}
    job = await reached.client.submit(drilled.platform, "drill", args, keep_seconds=KEEP_SECONDS)
    drilled.job = job.id
    with anyio.move_on_after(seconds) as scope:
        try:
            await reached.client.result(job.id)
            drilled.status = "completed"
        except JobCancelled:
            drilled.status = "cancelled"
        except JobFailed:
            drilled.status = "failed"
        drilled.seconds = round(time.monotonic() - begun, 3)
        events = await reached.client.history(job.id)
        drilled.worker = next((event.workerId for event in reversed(events) if event.workerId), None)
    if scope.cancelled_caught and drilled.status == "waiting":
        drilled.status = str((await reached.client.get(job.id)).status)
