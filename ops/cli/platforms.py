"""`platforms`: every platform with its counts, straight from the store."""

import argparse
from datetime import UTC, datetime

import anyio
import msgspec
from rich.text import Text

from tailrace.ops.connect import reach
from tailrace.ops.terminal import number, plain, row, show_table, span, table
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.overview import Overview, take_overviews
from tailrace.streams.views.presence import ConsumerPresence, Presence


def run(options: argparse.Namespace) -> int:
    overviews, consumers = anyio.run(look, options)
    serving = {each.platform: alive_on(each.platform, consumers) for each in overviews}
    if options.json:
        told = [{**msgspec.to_builtins(each), "consumers": serving[each.platform]} for each in overviews]
        print(msgspec.json.encode(told).decode())
        return 0
    counted = ("waiting", "running", "delayed", "completed", "failed", "cancelled")
    leaving = ("cancelled", "completed", "delayed", "oldest")
    steady = ("platform", *counted, "oldest", "workers")
    shown = table("platform", *counted, "oldest", "workers", "state", leaving=leaving, steady=steady)
    now = datetime.now(UTC)
    for each in overviews:
        oldest = "" if each.oldest_waiting_seconds is None else span(each.oldest_waiting_seconds)
        counts = [number(getattr(each, state), state) for state in counted]
        row(shown, each.platform, *counts, oldest, number(len(serving[each.platform])), state_of(each, serving, now))
    show_table(shown)
    return 0


async def look(options: argparse.Namespace) -> tuple[list[Overview], list[ConsumerPresence]]:
    async with reach(options.data) as store:
        platforms = StreamsSettings.read().platforms
        consumers = await Presence(Transitions(store), platforms).see()
        return await take_overviews(store, platforms), consumers


def alive_on(platform: str, consumers: list[ConsumerPresence]) -> list[str]:
    return [each.owner for each in consumers if each.alive and platform in each.platforms]


def state_of(overview: Overview, serving: dict[str, list[str]], now: datetime) -> Text:
    """What keeps the jobs of a platform from starting, if anything does."""
    words = ""
    if overview.paused:
        since = overview.paused_since
        ago = f", {span(max(0.0, (now - datetime.fromisoformat(since)).total_seconds()))} ago" if since else ""
        words = f"paused{f' by {plain(overview.paused_by)}' if overview.paused_by else ''}{ago}"
    elif overview.held_seconds:
        words = f"held for {span(overview.held_seconds)}"
    elif not serving[overview.platform] and (overview.waiting or overview.running or overview.delayed):
        words = "no worker"
    return Text(words, "yellow" if words else "")
