"""`schedules`: what is submitted again and again: list it, set it, pause it, resume it, remove it."""

import argparse
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from tailrace.ops.cli.submit import read_args
from tailrace.ops.connect import reach
from tailrace.ops.terminal import console, row, show_table, table
from tailrace.producers.schedules import Schedules, describe, options_of
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.schedules import Planned, Schedule
from tailrace.streams.transitions import Transitions
from tailrace.streams.validation import field_of

FORMS = {
    "set": "set PLATFORM NAME KIND [ARGS]",
    "pause": "pause PLATFORM NAME",
    "resume": "resume PLATFORM NAME",
    "remove": "remove PLATFORM NAME",
}


def run(options: argparse.Namespace) -> int:
    found = anyio.run(act, options, wanted_of(options))
    if options.json:
        print(msgspec.json.encode([describe(planned) for planned in found]).decode())
    elif options.words[:1] != ["remove"]:
        show(found)
    return 0


async def act(options: argparse.Namespace, wanted: Schedule | None) -> Sequence[Planned]:
    async with reach(options.data) as store:
        schedules = Schedules(Transitions(store), StreamsSettings.read().platforms)
        if wanted is not None:
            return [await schedules.upsert(wanted)]
        match options.words:
            case ["pause", platform, name]:
                return [await schedules.pause(platform, name)]
            case ["resume", platform, name]:
                return [await schedules.resume(platform, name)]
            case ["remove", platform, name]:
                await schedules.remove(platform, name)
                return []
            case [platform]:
                return await schedules.list(platform)
        return await schedules.list()


def wanted_of(options: argparse.Namespace) -> Schedule | None:
    """The schedule to be set, if one is; refuses a line that is none of the forms."""
    match options.words:
        case [] | ["pause" | "resume" | "remove", _, _]:
            return None
        case [platform] if platform not in FORMS:
            return None
        case ["set", platform, name, kind, *args] if len(args) <= 1:
            fields: dict[str, Any] = {
                "name": name,
                "platform": platform,
                "kind": kind,
                "args": read_args(args[0]) if args else {},
                "options": options_of(read_args(options.options)),
                "cron": options.cron,
                "every_seconds": options.every,
                "tz": options.tz,
                "missed": options.missed,
            }
            try:
                return msgspec.convert(fields, Schedule)
            except msgspec.ValidationError as error:
                raise WrongField(*field_of(error, "", Schedule)) from None
    form = FORMS.get(options.words[0], " or ".join(["[PLATFORM]", *FORMS.values()]))
    raise WrongField("schedules", f"write {form}")


def show(found: Sequence[Planned]) -> None:
    if not found:
        console().print("no schedules")
        return
    columns = ("platform", "schedule", "kind", "when", "missed", "next tick")
    rows = table(*columns, whole=("platform", "schedule"), leaving=("missed", "kind"))
    for planned in found:
        schedule = planned.schedule
        when = f"every {schedule.every_seconds:g} s" if schedule.every_seconds else f"{schedule.cron} {schedule.tz}"
        following = "paused" if planned.next_ms is None else iso(planned.next_ms)
        row(rows, schedule.platform, schedule.name, schedule.kind, when, schedule.missed, following)
    show_table(rows)
