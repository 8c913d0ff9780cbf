"""`follow`: a job live, one line per event, until it ends."""

import argparse
import sys

import anyio

from ops.reach import reach
from ops.story import decoded, follow_story
from ops.terminal import console, event_line


def run(options: argparse.Namespace) -> int:
    anyio.run(follow, options)
    return 0


async def follow(options: argparse.Namespace) -> None:
    out = console()
    async with reach(options.data) as store:
        async for raw in follow_story(store, options.job):
            if options.json:
                print(raw.decode(), flush=True)
            else:
                out.print(event_line(decoded(raw)))
                sys.stdout.flush()
