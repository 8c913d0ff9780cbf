"""`platforms`: every platform with its counts, straight from the store."""

import argparse

import anyio
import msgspec

from ops.reach import reach
from ops.terminal import row, show_table, table
from streams.overview import Overview, take_overviews
from streams.presence import Consumer, Presence
from streams.settings import StreamsSettings
from streams.transitions import Transitions


def run(options: argparse.Namespace) -> int:
    overviews, consumers = anyio.run(look, options)
    serving = {each.platform: alive_on(each.platform, consumers) for each in overviews}
    if options.json:
        told = [{**msgspec.to_builtins(each), "consumers": serving[each.platform]} for each in overviews]
        print(msgspec.json.encode(told).decode())
        return 0
    counted = ("waiting", "running", "delayed", "completed", "failed", "cancelled")
    leaving = ("cancelled", "completed", "delayed", "oldest")
    shown = table("platform", *counted, "oldest", "workers", "", whole=("platform",), leaving=leaving)
    for each in overviews:
        oldest = "" if each.oldest_waiting_seconds is None else f"{each.oldest_waiting_seconds:.1f} s"
        counts = (each.waiting, each.running, each.delayed, each.completed, each.failed, each.cancelled)
        row(shown, each.platform, *counts, oldest, len(serving[each.platform]), note(each))
    show_table(shown)
    return 0


async def look(options: argparse.Namespace) -> tuple[list[Overview], list[Consumer]]:
    async with reach(options.data) as store:
        platforms = StreamsSettings.read().platforms
        consumers = await Presence(Transitions(store), platforms).see()
        return await take_overviews(store, platforms), consumers


def alive_on(platform: str, consumers: list[Consumer]) -> list[str]:
    return [each.owner for each in consumers if each.alive and platform in each.platforms]


def note(overview: Overview) -> str:
    if overview.paused:
        return f"paused by {overview.paused_by or 'somebody'}, {overview.paused_since or 'nobody knows when'}"
    return f"held for {overview.held_seconds:.1f} s" if overview.held_seconds else ""
