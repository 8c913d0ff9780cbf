"""`platforms`: every platform with its counts, straight from the store."""

import argparse
from collections import Counter
from datetime import UTC, datetime

import msgspec
from rich.text import Text

from tailrace.ops.cli.apply import change
from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows, number
from tailrace.ops.terminal import plain, print_json, span
from tailrace.streams.errors import NoStore, WrongField
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.overview import Overview, take_overviews
from tailrace.streams.views.presence import Presence


def run(options: argparse.Namespace) -> int:
    match options.words:
        case [] if options.nodes:
            return show_nodes(options)
        case []:
            return show(options)
        case ["set", platform, *fields] if fields:
            return change(options, platform, fields)
    raise WrongField(
        "platforms", "write set PLATFORM name=value …, such as set research rate=30; or nothing to list all"
    )


def show(options: argparse.Namespace) -> int:
    platforms = ask(options, look)
    if options.json:
        print_json([{**msgspec.structs.asdict(each), "consumers": alive} for each, alive in platforms])
        return 0
    counted = ("waiting", "running", "delayed", "awaiting", "completed", "failed", "cancelled")
    steady = ("platform", *counted, "oldest", "workers")
    shown = Rows((*steady, "state"), leaving=("awaiting", "cancelled", "completed", "delayed", "oldest"), steady=steady)
    for each, alive in platforms:
        oldest = "" if each.oldest_waiting_seconds is None else span(each.oldest_waiting_seconds)
        counts = [number(getattr(each, state), state) for state in counted]
        shown.add(each.platform, *counts, oldest, number(len(alive)), Text(state_of(each, bool(alive)), "yellow"))
    shown.show()
    return 0


def show_nodes(options: argparse.Namespace) -> int:
    """The server of each platform, with its load."""
    places = ask(options, locate)
    if options.json:
        print_json([{"platform": each.platform, "node": node, "down": each.unavailable} for each, node in places])
        return 0
    shown = Rows(("node", "platform", "waiting", "running", "state"), leaving=(), steady=("node", "platform"))
    busy = Counter(node for each, node in places if each.waiting or each.running)
    for each, node in sorted(places, key=lambda place: (place[1], place[0].platform)):
        crowded = busy[node] > 1 and len(busy) < len({node for _, node in places}) and (each.waiting or each.running)
        away = "its node does not answer" if node else "no node serves its slot"
        state = away if each.unavailable else "shares a busy node" if crowded else ""
        counts = (number(each.waiting, "waiting"), number(each.running, "running"))
        shown.add(node, each.platform, *counts, Text(state, "yellow"))
    shown.show()
    return 0


async def locate(reached: Reached) -> list[tuple[Overview, str]]:
    """Each platform with the name of its server."""
    overviews = await take_overviews(reached.store, reached.platforms)
    return [(each, await name_of_node(reached.store, each.platform)) for each in overviews]


async def name_of_node(store: Store, platform: str) -> str:
    """Nothing if no node of the cluster serves its slot."""
    try:
        return (await store.node_of(platform)).name
    except NoStore:
        return ""


async def look(reached: Reached) -> list[tuple[Overview, list[str]]]:
    """Each platform with its consumers that are alive."""
    consumers = await Presence(Transitions(reached.store), reached.platforms).see()
    return [
        (each, [consumer.owner for consumer in consumers if consumer.alive and each.platform in consumer.platforms])
        for each in await take_overviews(reached.store, reached.platforms)
    ]


def state_of(overview: Overview, served: bool) -> str:
    """The reason why no job of a platform starts, or an empty text."""
    if overview.unavailable:
        return "its node does not answer"
    if overview.paused:
        since = overview.paused_since and datetime.fromisoformat(overview.paused_since)
        ago = f", {span(max(0.0, (datetime.now(UTC) - since).total_seconds()))} ago" if since else ""
        return f"paused{f' by {plain(overview.paused_by)}' if overview.paused_by else ''}{ago}"
    if overview.held_seconds:
        return f"held for {span(overview.held_seconds)}"
    has_jobs = overview.waiting or overview.running or overview.delayed or overview.awaiting
    return "no worker" if has_jobs and not served else ""
