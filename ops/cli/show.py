"""`show`: the record of a job, its args and how it ended."""

import argparse
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.text import Text

from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.cli.watch import decoded
from tailrace.ops.connect import Reached, ask
from tailrace.ops.terminal import console, plain, print_json
from tailrace.producers.following import read_visible
from tailrace.streams.history.events import iso, progress_of, read_members
from tailrace.streams.messages import Record
from tailrace.streams.options import kept_options
from tailrace.streams.replies import read_args, read_times
from tailrace.streams.states import State
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.presence import ConsumerPresence, Presence
from tailrace.streams.waiting.explain import WaitExplainer
from tailrace.streams.waiting.reasons import WhyWaiting


def run(options: argparse.Namespace) -> int:
    facts = ask(options, partial(read, options.job))
    if options.json:
        print_json(facts)
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
    if isinstance(value, WhyWaiting):
        return told(value)
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode()]


def told(waiting: WhyWaiting) -> list[str]:
    """Why a job waits, in words."""
    said = [reason.detail for reason in waiting.reasons]
    if waiting.position is not None:
        said.append(f"It is at position {waiting.position}{'' if waiting.exact else ' or later'} of the queue.")
    return said


async def read(job_id: str, reached: Reached) -> dict[str, Any]:
    store = reached.store
    record, events = await read_visible(store, job_id)
    keys = store.keys(record.platform)
    args = await read_args(store, keys, record)
    due, expires = await read_times(store, keys, record.key)
    waiting = await explain(reached, record, due, events)
    facts = facts_of(record, args, progress_of(record.attempt, events), decoded(events[-1]))
    if due is not None and record.state is State.DELAYED:
        facts["runAt"] = iso(due)
    if expires is not None and not record.attempt:
        facts["expiresAt"] = iso(expires)
    if waiting is not None:
        facts["waiting"] = waiting
    return facts


class Watching(Presence):
    """Waits for a beat instead of a glance: a consumer that has not beaten by then does not count as alive."""

    async def glance(self) -> list[ConsumerPresence]:
        return [each if each.alive else replace(each, deadline_seconds=0.0) for each in await self.see()]


async def explain(reached: Reached, record: Record, due_ms: float | None, events: list[bytes]) -> WhyWaiting | None:
    """Why the job waits; nothing for a platform that is not declared here, whose policy is unknown."""
    platforms, transitions = reached.platforms, Transitions(reached.store)
    if record.platform not in platforms:
        return None
    patience = ConsumerSettings.read(platforms).deadline_seconds / 2  # a beat comes within a third of the deadline
    explainer = WaitExplainer(transitions, platforms, Watching(transitions, [record.platform], patience))
    return await explainer.explain(reached.store.keys(record.platform), record, due_ms, events)


def facts_of(record: Record, args: bytes | None, progress: float | None, last: dict[str, Any]) -> dict[str, Any]:
    """The facts about a job by name; missing ones are left out."""
    asked = read_members(record.cancel) if record.cancel is not None else None
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
        **kept_options(record.marks, record.dedupe),
        "options": msgspec.Raw(record.options.encode()) if record.options else None,
        "progress": progress,
        "workerId": record.owner,
        "accepted": iso(record.accepted_ms),
        "started": iso(record.started_ms) if record.started_ms else None,
        "ended": iso(record.ended_ms) if record.ended_ms else None,
        "args": msgspec.Raw(args) if args else None,
        "result": last.get("result"),
        "error": last.get("error"),
        "expiresAt": last.get("expiresAt"),
        "cancelling": asked if record.state is State.RUNNING else None,
        "cancelled": called_off if record.state is State.CANCELLED else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
