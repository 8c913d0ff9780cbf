"""`schedules`: list, set, pause, resume and remove schedules."""

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tailrace.ops.cli.act import who
from tailrace.ops.cli.submit import read_args
from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import console, print_json
from tailrace.producers.schedules import Schedules, describe, options_of
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.schedules import Planned, Schedule
from tailrace.streams.validation import field_of

FORMS = {
    "set": "set PLATFORM NAME KIND [ARGS]",
    "pause": "pause PLATFORM NAME",
    "resume": "resume PLATFORM NAME",
    "remove": "remove PLATFORM NAME",
}


def run(options: argparse.Namespace) -> int:
    act = wanted(options)

    async def done(reached: Reached) -> Planned | list[Planned] | None:
        return await act(reached.client.schedules)

    answer = ask(options, done)
    found = answer if isinstance(answer, list) else [answer] if answer else []
    if options.json:
        print_json([describe(planned) for planned in found])
    elif options.words[:1] != ["remove"]:
        show(found)
    return 0


def wanted(options: argparse.Namespace) -> Callable[[Schedules], Awaitable[Planned | list[Planned] | None]]:
    """The action of the line. Raises `WrongField` for a line of another form."""
    by = who(options)
    match options.words:
        case []:
            return lambda schedules: schedules.list()
        case [platform] if platform not in FORMS:
            return lambda schedules: schedules.list(platform)
        case ["pause", platform, name]:
            return lambda schedules: schedules.pause(platform, name, by=by)
        case ["resume", platform, name]:
            return lambda schedules: schedules.resume(platform, name, by=by)
        case ["remove", platform, name]:
            return lambda schedules: schedules.remove(platform, name, by=by)
        case ["set", platform, name, kind, *args] if len(args) <= 1:
            schedule = schedule_of(options, platform, name, kind, args)
            return lambda schedules: schedules.upsert(schedule, by=by)
    if form := FORMS.get(options.words[0]):
        raise WrongField("schedules", f"expected {form}")
    raise WrongField("schedules", f"there is no action {options.words[0]!r}; choose among {', '.join(FORMS)}")


def schedule_of(options: argparse.Namespace, platform: str, name: str, kind: str, args: Sequence[str]) -> Schedule:
    fields: dict[str, Any] = {
        "name": name,
        "platform": platform,
        "kind": kind,
        "args": read_args(args[0]) if args else {},
        "options": options_of(read_args(options.options, "--options")),
        "cron": options.cron,
        "every_seconds": options.every_seconds,
        "tz": options.tz,
        "missed": options.missed,
    }
    try:
        return msgspec.convert(fields, Schedule)
    except msgspec.ValidationError as error:
        raise WrongField(*field_of(error, "", Schedule)) from None


def show(found: Sequence[Planned]) -> None:
    if not found:
        console().print("no schedules")
        return
    columns = ("platform", "schedule", "kind", "when", "missed", "next tick")
    rows = Rows(columns, whole=("platform", "schedule"), leaving=("missed", "kind"))
    for planned in found:
        schedule = planned.schedule
        when = f"every {schedule.every_seconds:g} s" if schedule.every_seconds else f"{schedule.cron} {schedule.tz}"
        following = "paused" if planned.next_ms is None else iso(planned.next_ms)
        rows.add(schedule.platform, schedule.name, schedule.kind, when, schedule.missed, following)
    rows.show()
