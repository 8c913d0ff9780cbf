"""`running`: what runs and what waits, straight from the store."""

import argparse

import anyio
import msgspec

from tailrace.ops.connect import reach
from tailrace.ops.terminal import console, row, show_table, table
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.views.census import Census, describe, take_census


def run(options: argparse.Namespace) -> int:
    census = anyio.run(take, options)
    if options.json:
        print(msgspec.json.encode({"success": True, "data": describe(census)}).decode())
    else:
        show(census)
    return 0


async def take(options: argparse.Namespace) -> Census:
    async with reach(options.data) as store:
        return await take_census(store, StreamsSettings.read().platforms)


def show(census: Census) -> None:
    out = console()
    if census.running:
        columns = ("platform", "job", "workflow", "attempt", "progress", "elapsed", "worker")
        jobs = table(*columns, whole=("job",), leaving=("platform", "worker", "workflow", "attempt"))
        for job in census.running:
            record = job.record
            progress = "" if job.progress is None else f"{job.progress:g} %"
            elapsed = f"{job.elapsed_seconds:.1f} s"
            row(jobs, record.platform, record.id, job.workflow_id, record.attempt, progress, elapsed, record.owner)
        show_table(jobs)
        out.print()
    if census.waiting:
        lines = table("platform", "waiting", whole=("platform",))
        for platform, count in census.waiting.items():
            row(lines, platform, count)
        show_table(lines)
        out.print()
    out.print(f"{len(census.running)} running, {sum(census.waiting.values())} waiting")
