"""`workers`: every consumer, whether it was seen to beat, and what it runs."""

import argparse

import msgspec

from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows, number
from tailrace.ops.terminal import nothing_known, print_json, say, span
from tailrace.streams.messages import About
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.overview import find_unavailable
from tailrace.streams.views.presence import ConsumerPresence, Presence

JOBS = 3  # named in the table; the rest is counted


def run(options: argparse.Namespace) -> int:
    workers, unknown = ask(options, look)
    if unknown:
        say(nothing_known(unknown))
    if options.json:
        print_json(
            [
                {**msgspec.structs.asdict(about), **msgspec.to_builtins(seen), "jobs": jobs, "alive": seen.alive}
                for seen, about, jobs in workers
            ]
        )
        return 0
    if not workers:
        say(f"no worker is there; start one with `{PROGRAM} consume`, or all with `{PROGRAM} up`")
        return 0
    steady = ("worker", "state", "last beat", "jobs", "lag", "memory", "version", "host")
    columns = (*steady[:6], "platforms", "job ids", *steady[6:])
    leaving = ("host", "version", "job ids", "platforms", "memory", "lag")
    shown = Rows(columns, whole=("platforms", "job ids"), leaving=leaving, steady=steady)
    for seen, about, jobs in workers:
        more = f" and {len(jobs) - JOBS} more" if len(jobs) > JOBS else ""
        shown.add(
            seen.owner,
            "alive" if seen.alive else "silent",
            last_beat(seen),
            number(len(jobs), "running"),
            lag(about.lag_seconds),
            "" if about.memory_bytes is None else f"{about.memory_bytes / 1e6:.0f} MB",
            ", ".join(seen.platforms),
            " ".join(jobs[:JOBS]) + more,
            about.version,
            about.host,
        )
    shown.show()
    return 0


async def look(reached: Reached) -> tuple[list[tuple[ConsumerPresence, About, list[str]]], dict[str, str]]:
    """Each consumer, the facts it reports about itself, and its jobs; and the platforms that cannot be looked at.

    A consumer that never beat has reported nothing.
    """
    presence = Presence(Transitions(reached.store), reached.platforms)
    seen, told, jobs = await presence.see(), await presence.told(), await presence.jobs()
    unknown = await find_unavailable(reached.store, reached.platforms)
    return [(each, told.get(each.owner, About()), jobs.get(each.owner, [])) for each in seen], unknown


def lag(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def last_beat(consumer: ConsumerPresence) -> str:
    """The time since its beat counter was seen to change."""
    if consumer.changed_seconds is None:
        return f"none in {span(consumer.watched_seconds)}"
    return f"{span(consumer.changed_seconds)} ago"
