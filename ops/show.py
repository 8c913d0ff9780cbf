"""`show`: the record of a job, its args and how it ended."""

import argparse
from typing import Any

import anyio
import msgspec
from rich.text import Text

from ops.reach import reach
from ops.story import decoded, read_story
from ops.terminal import console, plain
from streams.events import iso, progress_of
from streams.keys import PlatformKeys
from streams.messages import Record
from streams.reading import read_args


def run(options: argparse.Namespace) -> int:
    facts = anyio.run(read, options)
    if options.json:
        print(msgspec.json.encode(facts).decode())
        return 0
    out = console()
    width = max(map(len, facts))
    for name, value in facts.items():
        for number, line in enumerate(lines(name, value)):
            out.print(Text.assemble((f"{'' if number else name:{width}}  ", "dim"), plain(line)))
    return 0


def lines(name: str, value: Any) -> list[str]:
    """A fact for people: an error as Python shows it, everything else in one line."""
    if name == "error" and isinstance(value, dict):
        return [f"{value.get('type')}: {value.get('message')}", *str(value.get("traceback") or "").splitlines()]
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]


async def read(options: argparse.Namespace) -> dict[str, Any]:
    async with reach(options.data) as store:
        record, events = await read_story(store, options.job)
        args = await read_args(store, PlatformKeys(record.platform), record)
    return facts_of(record, args, progress_of(record.attempt, events), decoded(events[-1]))


def facts_of(record: Record, args: bytes | None, progress: float | None, last: dict[str, Any]) -> dict[str, Any]:
    """What is known of a job, in whole words; what is not there is left out."""
    facts: dict[str, Any] = {
        "jobId": record.id,
        "state": record.state,
        "kind": record.kind,
        "platform": record.platform,
        "priority": record.band,
        "attempt": record.attempt or None,
        "crashes": record.crashes or None,
        "progress": progress,
        "workerId": record.owner,
        "accepted": iso(record.accepted_ms),
        "started": iso(record.started_ms) if record.started_ms else None,
        "ended": iso(record.ended_ms) if record.ended_ms else None,
        "args": msgspec.Raw(args) if args else None,
        "result": last.get("result"),
        "error": last.get("error"),
    }
    return {name: value for name, value in facts.items() if value is not None}
