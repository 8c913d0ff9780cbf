"""`workers`: every consumer, whether it was seen to beat, and what it runs."""

import argparse

import anyio
import msgspec

from ops.reach import reach
from ops.terminal import console, row, say, table
from streams.presence import Consumer, Presence
from streams.settings import StreamsSettings
from streams.transitions import Transitions

WORDS = {True: "alive", False: "silent", None: "silent"}
JOBS = 3  # named in the table; the rest is counted


def run(options: argparse.Namespace) -> int:
    consumers = anyio.run(look, options)
    if options.json:
        told = [{**msgspec.to_builtins(each), "alive": each.alive} for each in consumers]
        print(msgspec.json.encode(told).decode())
        return 0
    if not consumers:
        say("no consumer is there; start one with `python3 -m ops consume`, or all with `python3 -m ops up`")
        return 0
    shown = table("worker", "platforms", "state", "seen", "jobs")
    for each in consumers:
        row(shown, each.owner, ",".join(each.platforms), WORDS[each.alive], seen(each), jobs_of(each))
    console().print(shown)
    return 0


async def look(options: argparse.Namespace) -> list[Consumer]:
    async with reach(options.data) as store:
        return await Presence(Transitions(store), StreamsSettings.read().platforms).see()


def seen(consumer: Consumer) -> str:
    """What we saw ourselves: when its beat counter changed, or for how long it did not."""
    if consumer.changed_seconds is None:
        return f"no beat in {consumer.watched_seconds:.1f} s"
    return f"beat {consumer.changed_seconds:.1f} s ago"


def jobs_of(consumer: Consumer) -> str:
    more = len(consumer.jobs) - JOBS
    return " ".join(consumer.jobs[:JOBS]) + (f" and {more} more" if more > 0 else "")
