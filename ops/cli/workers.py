"""`workers`: every consumer, whether it was seen to beat, and what it runs."""

import argparse

import anyio
import msgspec

from tailrace.ops.connect import reach
from tailrace.ops.terminal import number, row, say, show_table, span, table
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.messages import About
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.presence import ConsumerPresence, Presence

WORDS = {True: "alive", False: "silent", None: "silent"}
JOBS = 3  # named in the table; the rest is counted


def run(options: argparse.Namespace) -> int:
    consumers, abouts, jobs = anyio.run(look, options)
    if options.json:
        told = [
            {
                **msgspec.structs.asdict(about_of(each, abouts)),
                **msgspec.to_builtins(each),
                "jobs": jobs.get(each.owner, []),
                "alive": each.alive,
            }
            for each in consumers
        ]
        print(msgspec.json.encode(told).decode())
        return 0
    if not consumers:
        say(f"no worker is there; start one with `{PROGRAM} consume`, or all with `{PROGRAM} up`")
        return 0
    steady = ("worker", "state", "last beat", "jobs", "lag", "memory", "version", "host")
    columns = (*steady[:6], "platforms", "job ids", *steady[6:])
    leaving = ("host", "version", "job ids", "platforms", "memory", "lag")
    shown = table(*columns, whole=("platforms", "job ids"), leaving=leaving, steady=steady)
    for each in consumers:
        about = about_of(each, abouts)
        facts = (lag(about.lag_seconds), megabytes(about.memory_bytes), ", ".join(each.platforms))
        running = jobs.get(each.owner, [])
        words = (each.owner, WORDS[each.alive], seen(each), number(len(running), "running"))
        row(shown, *words, *facts, shortened(running), about.version, about.host)
    show_table(shown)
    return 0


async def look(options: argparse.Namespace) -> tuple[list[ConsumerPresence], dict[str, About], dict[str, list[str]]]:
    async with reach(options.data) as store:
        presence = Presence(Transitions(store), StreamsSettings.read().platforms)
        return await presence.see(), await presence.told(), await presence.jobs()


def about_of(consumer: ConsumerPresence, abouts: dict[str, About]) -> About:
    """What it tells of itself; one that never beat tells nothing."""
    return abouts.get(consumer.owner, About())


def lag(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def megabytes(memory: int | None) -> str:
    return "" if memory is None else f"{memory / 1e6:.0f} MB"


def seen(consumer: ConsumerPresence) -> str:
    """What we saw ourselves: when its beat counter changed, or for how long it did not."""
    if consumer.changed_seconds is None:
        return f"none in {span(consumer.watched_seconds)}"
    return f"{span(consumer.changed_seconds)} ago"


def shortened(jobs: list[str]) -> str:
    more = len(jobs) - JOBS
    return " ".join(jobs[:JOBS]) + (f" and {more} more" if more > 0 else "")
