"""`dead` and `replay`: the failed jobs that are still kept, and another life for all that match."""

import argparse
import sys

import anyio
import msgspec

from tailrace.ops.cli.act import actions, declared, who
from tailrace.ops.connect import reach
from tailrace.ops.hints import command
from tailrace.ops.terminal import console, row, say, show_table, table
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.views.dead_letters import Match, count_dead, list_dead
from tailrace.streams.views.listing import Listed

MOST = 100_000


def run(options: argparse.Namespace) -> int:
    """Both commands; they share their filters."""
    if options.limit is not None and not 1 <= options.limit <= MOST:
        raise WrongField("--limit", f"must be from 1 to {MOST}")
    match = Match(options.kind, options.error)
    return anyio.run(replay if options.command == "replay" else show, options, match)


async def show(options: argparse.Namespace, match: Match) -> int:
    found: list[Listed] = []
    more = False
    async with reach(options.data) as store:
        declared_here = StreamsSettings.read().platforms
        for keys in [declared(options.platform)] if options.platform else map(PlatformKeys, declared_here):
            wanted, after = options.limit, ""
            while wanted:
                page = await list_dead(store, keys, match, min(wanted, 1000), after)
                found += page.jobs
                wanted -= len(page.jobs)
                if page.next is None:
                    break
                after = page.next
            else:
                more = True
    if options.json:
        print(msgspec.json.encode([facts_of(job) for job in found]).decode())
        return 0
    columns = ("job", "kind", "error", "message", "failures", "crashes", "ended")
    dead = table(*columns, whole=("job",), leaving=("crashes", "failures", "ended", "kind", "message"))
    for job in found:
        facts = facts_of(job)
        error = job.error
        row(
            dead,
            facts["jobId"],
            facts["kind"],
            error.type if error else "",
            error.message[:80] if error else "",
            facts["failures"],
            facts["crashes"],
            facts["endedAt"],
        )
    if found:
        show_table(dead)
        console().print()
    console().print(f"{len(found)} failed{', and perhaps more: see --limit' if more else ''}")
    if found:
        one, all_of_them = command("retry JOB", options.data), command("replay PLATFORM", options.data)
        say(f"`{one}` or `{all_of_them}` gives them another life")
    return 0


def facts_of(job: Listed) -> dict[str, object]:
    record = job.record
    return {
        "jobId": record.id,
        "kind": record.kind,
        "error": job.error,
        "attempt": record.attempt or None,
        "failures": record.failures,
        "crashes": record.crashes,
        "endedAt": iso(record.ended_ms) if record.ended_ms else None,
    }


async def replay(options: argparse.Namespace, match: Match) -> int:
    async with reach(options.data) as store:
        keys = declared(options.platform)
        if not options.yes:
            count = await count_dead(store, keys, match)
            wanted = count if options.limit is None else min(count, options.limit)
            if wanted and not agreed(
                f"give {wanted} failed {'job' if wanted == 1 else 'jobs'} of {keys.platform} another life?"
            ):
                say("nothing was done")
                return 1
        swept = await actions(store).replay(
            keys.platform, kind=options.kind, error=options.error, limit=options.limit, by=who(options)
        )
    if options.json:
        print(msgspec.json.encode({"replayed": swept.done, "left": swept.left}).decode())
    else:
        print(f"{swept.done} replayed, {swept.left} left")
    return 0


def agreed(question: str) -> bool:
    """Ask whoever sits there; where nobody does, `--yes` has to say it."""
    if not sys.stdin.isatty():
        raise WrongField("--yes", "is needed where nobody can be asked: it would " + question.rstrip("?"))
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
