"""`flow`: the jobs that a job spawned, and theirs, as a tree."""

import argparse
from functools import partial
from typing import Any

from rich.text import Text

from tailrace.ops.connect import Reached, ask
from tailrace.ops.terminal import console, plain, print_json, say, style_of
from tailrace.streams.messages import Record
from tailrace.streams.views.flow import FLOW_MOST, FlowJob, walk

MOST_LINES = 2000  # of jobs; the rest is counted


def run(options: argparse.Namespace) -> int:
    record, jobs, total = ask(options, partial(read, options.job))
    if options.json:
        print_json(
            {"jobId": record.id, "state": record.state, "total": total, "children": [facts(job) for job in jobs]}
        )
        return 0
    out = console()
    out.print(line(0, record.id, record.kind, record.state, None))
    for shown, (level, job) in enumerate(walk(jobs), 1):
        out.print(line(level + 1, job.id, job.kind, job.state, job.progress))
        if job.total and not job.children:
            out.print(Text(f"{'  ' * (level + 2)}{job.total} more below it", style="dim"))
        if shown == MOST_LINES:
            say(f"{MOST_LINES} jobs are shown; `--json` has them all")
            break
    if not jobs:
        say("it has spawned no job")
    return 0


def line(level: int, job_id: str, kind: str | None, state: str, progress: float | None) -> Text:
    done = f"  {progress:g} %" if progress is not None and state == "running" else ""
    named = f"  {plain(kind)}" if kind else ""
    return Text.assemble("  " * level, plain(job_id), "  ", (state, style_of(state)), done, (named, "dim"))


async def read(job_id: str, reached: Reached) -> tuple[Record, list[FlowJob], int]:
    """All children of a job, page by page."""
    jobs: list[FlowJob] = []
    after = ""
    while True:
        page = await reached.client.flow(job_id, after=after, limit=FLOW_MOST)
        jobs += page.children
        if page.next is None:
            return page.record, jobs, page.total
        after = page.next


def facts(job: FlowJob) -> dict[str, Any]:
    told = {"jobId": job.id, "kind": job.kind, "platform": job.platform, "state": job.state, "progress": job.progress}
    return {**told, "total": job.total, "children": [facts(child) for child in job.children]}
