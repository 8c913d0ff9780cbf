"""`running`: running and waiting jobs, straight from the store."""

import argparse

from tailrace.ops.connect import ask
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import console, nothing_known, print_json, say
from tailrace.streams.views.census import Census, take_census


def run(options: argparse.Namespace) -> int:
    census = ask(options, lambda reached: take_census(reached.store, reached.platforms))
    if census.unavailable:
        say(nothing_known(census.unavailable))
    if options.json:
        print_json({"success": True, "data": census.shown()})
    else:
        show(census)
    return 0


def show(census: Census) -> None:
    out = console()
    if census.running:
        columns = ("platform", "job", "workflow", "attempt", "progress", "elapsed", "worker")
        jobs = Rows(columns, whole=("job",), leaving=("platform", "worker", "workflow", "attempt"))
        for record, job in census.running:
            progress = "" if job.progress is None else f"{job.progress:g} %"
            elapsed = f"{job.elapsed_seconds:.1f} s"
            jobs.add(record.platform, record.id, job.workflow_id, record.attempt, progress, elapsed, record.owner)
        jobs.show()
        out.print()
    if census.waiting:
        lines = Rows(("platform", "waiting"), whole=("platform",))
        for platform, count in census.waiting.items():
            lines.add(platform, count)
        lines.show()
        out.print()
    out.print(f"{len(census.running)} running, {sum(census.waiting.values())} waiting")
