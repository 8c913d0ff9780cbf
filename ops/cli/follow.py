"""`follow`: a job live, one line per event, until it ends."""

import argparse
import sys

import anyio

from tailrace.ops.cli.story import decoded, follow_story
from tailrace.ops.connect import reach
from tailrace.ops.terminal import Takeover, console, event_line


def run(options: argparse.Namespace) -> int:
    return anyio.run(follow, options)


async def follow(options: argparse.Namespace) -> int:
    """0 when the job completed, 1 when it ended otherwise."""
    out = console()
    takeover = Takeover()
    raw = b"{}"
    async with reach(options.data) as store:
        async for raw in follow_story(store, options.job):
            if options.json:
                print(raw.decode(), flush=True)
            else:
                out.print(event_line(decoded(raw)))
                if told := takeover.told(decoded(raw)):
                    out.print(told)
                sys.stdout.flush()
    return 0 if decoded(raw).get("status") == "completed" else 1
