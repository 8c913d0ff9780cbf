"""`history` and `follow`: the events of a job so far, and its events as they happen."""

import argparse
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tailrace.ops.connect import Reached, ask
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import Takeover, about, console, event_line, plain, say
from tailrace.producers.following import follow, read_visible
from tailrace.streams.store.connection import Store


def run(options: argparse.Namespace) -> int:
    if options.command == "history":
        return show_history(options)
    return ask(options, partial(show_live, options))


def show_history(options: argparse.Namespace) -> int:
    _, events = ask(options, lambda reached: read_visible(reached.store, options.job))
    if options.json:
        print("[" + ",\n ".join(raw.decode() for raw in events) + "]")
        return 0
    shown = Rows(("seq", "time", "attempt", "status", ""))
    for event in map(decoded, events):
        shown.add(event["seq"], event["time"], event["attempt"], event["status"], about(event))
    shown.show()
    return 0


async def show_live(options: argparse.Namespace, reached: Reached) -> int:
    """0 when the job completed, 1 when it ended otherwise."""
    out, takeover = console(), Takeover()
    event: dict[str, Any] = {}
    async for raw in events_of(reached.store, options.job):
        event = decoded(raw)
        if options.json:
            print(raw.decode(), flush=True)
        else:
            out.print(event_line(event))
            if told := takeover.told(event):
                out.print(told)
            sys.stdout.flush()
    return 0 if event.get("status") == "completed" else 1


def events_of(store: Store, job_id: str) -> AsyncIterator[bytes]:
    """The visible events of a job as they come; an outage of the store is said once."""
    return follow(store, job_id, on_outage=lambda error: say(f"{error}; waiting for it"))


def decoded(raw: bytes) -> dict[str, Any]:
    """An event, decoded without checks: the fold has checked it."""
    return msgspec.json.decode(raw, type=dict[str, Any])


async def watch(store: Store, job_id: str) -> bytes:
    """Show a job until it ends, with a bar in a terminal, else a line for each event; returns its last event."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    talk, takeover = console(talk=True), Takeover()
    with Progress(*columns, console=talk, disable=not talk.is_terminal) as bar:
        task = bar.add_task("queued", total=None, note="")
        async for raw in events_of(store, job_id):
            event = decoded(raw)
            if bar.disable:
                talk.print(event_line(event))
            else:
                advance(bar, task, event)
            if told := takeover.told(event):
                talk.print(told)
    return raw


def advance(bar: Progress, task: TaskID, event: dict[str, Any]) -> None:
    step, of = event["step"], event.get("of")
    if isinstance(step, int) and isinstance(of, int):
        bar.update(task, completed=step, total=of)
    if event["status"] == "started":
        bar.update(task, completed=0)  # another attempt begins again
    attempt = f" #{event['attempt']}" if (event["attempt"] or 0) > 1 else ""
    note = plain(event.get("message") or "") if event["status"] == "progress" else about(event)
    bar.update(task, description=event["status"] + attempt, note=note)
