"""`running`: what runs and what waits, straight from the store."""

import argparse
from typing import Any

import anyio
import msgspec

from ops.reach import reach
from ops.terminal import console, row, table
from streams.census import Census, take_census
from streams.reading import iso
from streams.settings import StreamsSettings


def run(options: argparse.Namespace) -> int:
    census = anyio.run(take, options)
    if options.json:
        print(msgspec.json.encode(summary(census)).decode())
    else:
        show(census)
    return 0


async def take(options: argparse.Namespace) -> Census:
    async with reach(options.data) as store:
        return await take_census(store, StreamsSettings.read().platforms)


def summary(census: Census) -> dict[str, Any]:
    """The same shape as GET /api/v2/jobs/running."""
    running = [
        {
            "platform": job.record.platform,
            "job_id": job.record.id,
            "workflow_id": job.workflow_id,
            "started_at": iso(job.record.started_ms or 0),
            "elapsed_seconds": round(job.elapsed_seconds, 3),
        }
        for job in census.running
    ]
    counts = {"running_count": len(running), "queued_count": sum(census.waiting.values())}
    return {"success": True, "data": {"running": running, "queued": census.waiting, "summary": counts}}


def show(census: Census) -> None:
    out = console()
    if census.running:
        jobs = table("platform", "job", "workflow", "attempt", "progress", "elapsed", "worker")
        for job in census.running:
            record = job.record
            progress = "" if record.progress is None else f"{record.progress:g} %"
            elapsed = f"{job.elapsed_seconds:.1f} s"
            row(jobs, record.platform, record.id, job.workflow_id, record.attempt, progress, elapsed, record.owner)
        out.print(jobs)
        out.print()
    if census.waiting:
        lines = table("platform", "waiting")
        for platform, count in census.waiting.items():
            row(lines, platform, count)
        out.print(lines)
        out.print()
    out.print(f"{len(census.running)} running, {sum(census.waiting.values())} waiting")
