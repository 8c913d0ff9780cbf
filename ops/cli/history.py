"""`history`: what happened to a job, as every client sees it."""

import argparse

import anyio

from tailrace.ops.cli.story import decoded
from tailrace.ops.connect import reach
from tailrace.ops.terminal import about, row, show_table, table
from tailrace.producers.following import read_visible


def run(options: argparse.Namespace) -> int:
    events = anyio.run(read, options)
    if options.json:
        print("[" + ",\n ".join(raw.decode() for raw in events) + "]")
        return 0
    shown = table("seq", "time", "attempt", "status", "")
    for event in map(decoded, events):
        row(shown, event["seq"], event["time"], event["attempt"], event["status"], about(event))
    show_table(shown)
    return 0


async def read(options: argparse.Namespace) -> list[bytes]:
    async with reach(options.data) as store:
        _, events = await read_visible(store, options.job)
    return events
