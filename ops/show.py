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
from streams.states import State


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
        keys = PlatformKeys(record.platform)
        args = await read_args(store, keys, record)
        due, expires = await store.commands(
            [("ZSCORE", keys["due"], record.key), ("ZSCORE", keys["alarms"], f"!{record.key}")]
        )
    facts = facts_of(record, args, progress_of(record.attempt, events), decoded(events[-1]))
    if due is not None and record.state is State.DELAYED:
        facts["runAt"] = iso(int(float(due)))
    if expires is not None and not record.attempt:
        facts["expiresAt"] = iso(int(float(expires)))
    return facts


def facts_of(record: Record, args: bytes | None, progress: float | None, last: dict[str, Any]) -> dict[str, Any]:
    """What is known of a job, in whole words; what is not there is left out."""
    marks = dict(word.split("=", 1) for word in (record.marks or "").split() if "=" in word)
    asked = decoded(b"{" + record.cancel.removeprefix(",").encode() + b"}") if record.cancel is not None else None
    called_off = {name: last.get(name) for name in ("by", "reason") if last.get(name)}
    facts: dict[str, Any] = {
        "jobId": record.id,
        "state": record.state,
        "kind": record.kind,
        "platform": record.platform,
        "priority": record.band,
        "attempt": record.attempt or None,
        "failures": record.failures or None,
        "crashes": record.crashes or None,
        "orderKey": marks.get("order"),
        "limitKey": marks.get("limit"),
        "dedupeKey": record.dedupe,
        "options": msgspec.Raw(record.options.encode()) if record.options else None,
        "progress": progress,
        "workerId": record.owner,
        "accepted": iso(record.accepted_ms),
        "started": iso(record.started_ms) if record.started_ms else None,
        "ended": iso(record.ended_ms) if record.ended_ms else None,
        "args": msgspec.Raw(args) if args else None,
        "result": last.get("result"),
        "error": last.get("error"),
        "cancelling": asked if record.state is State.RUNNING else None,
        "cancelled": called_off if record.state is State.CANCELLED else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
