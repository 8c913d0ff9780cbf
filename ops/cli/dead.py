"""`dead` and `replay`: the failed jobs that are still kept, and running them again."""

import argparse
import sys
from functools import partial
from typing import Any

from tailrace.ops.cli.act import who
from tailrace.ops.connect import Reached, ask
from tailrace.ops.hints import command
from tailrace.ops.tables import Rows
from tailrace.ops.terminal import console, print_json, say
from tailrace.streams.errors import WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.views.failed_jobs import Match, Swept, count_dead, list_dead
from tailrace.streams.views.listing import Listed

MOST = 100_000
PAGE = 1000


def run(options: argparse.Namespace) -> int:
    """Both commands; they share their filters."""
    if options.limit is not None and not 1 <= options.limit <= MOST:
        raise WrongField("limit", f"must be from 1 to {MOST}", options.limit)
    if options.command == "dead":
        return show(options, *ask(options, partial(find, options)))
    swept = ask(options, partial(replay, options))
    if swept is None:
        say("nothing was done")
        return 1
    if options.json:
        print_json({"replayed": swept.done, "left": swept.left})
    else:
        print(f"{swept.done} replayed, {swept.left} left")
    return 0


async def find(options: argparse.Namespace, reached: Reached) -> tuple[list[dict[str, Any]], bool]:
    """The failed jobs, and whether there may be more."""
    match = Match(options.kind, options.error)
    found: list[Listed] = []
    more = False
    for name in [reached.platforms.known(options.platform)] if options.platform else reached.platforms:
        wanted, after = options.limit, ""
        while wanted:
            page = await list_dead(reached.store, reached.store.keys(name), match, min(wanted, PAGE), after)
            found += page.jobs
            wanted -= len(page.jobs)
            if page.next is None:
                break
            after = page.next
        else:
            more = True
    return [facts_of(job) for job in found], more


def facts_of(job: Listed) -> dict[str, Any]:
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


def show(options: argparse.Namespace, found: list[dict[str, Any]], more: bool) -> int:
    if options.json:
        print_json(found)
        return 0
    columns = ("job", "kind", "error", "message", "failures", "crashes", "ended")
    dead = Rows(columns, whole=("job",), leaving=("crashes", "failures", "ended", "kind", "message"))
    for job in found:
        error = (job["error"].type, job["error"].message[:80]) if job["error"] else ("", "")
        dead.add(job["jobId"], job["kind"], *error, job["failures"], job["crashes"], job["endedAt"])
    if found:
        dead.show()
        console().print()
    console().print(f"{len(found)} failed{', and perhaps more: see --limit' if more else ''}")
    if found:
        one, all_of_them = command("retry JOB", options.data), command("replay PLATFORM", options.data)
        say(f"`{one}` or `{all_of_them}` runs them again")
    return 0


async def replay(options: argparse.Namespace, reached: Reached) -> Swept | None:
    """The result; None: the user did not confirm."""
    keys = reached.store.keys(reached.platforms.known(options.platform))
    if not options.yes:
        count = await count_dead(reached.store, keys, Match(options.kind, options.error))
        wanted = count if options.limit is None else min(count, options.limit)
        jobs = "job" if wanted == 1 else "jobs"
        if wanted and not agreed(f"run {wanted} failed {jobs} of {keys.platform} again?"):
            return None
    which = {"kind": options.kind, "error": options.error, "limit": options.limit}
    return await reached.client.replay(keys.platform, **which, by=who(options))


def agreed(question: str) -> bool:
    """Ask the person at the terminal; where there is none, `--yes` has to say it."""
    if not sys.stdin.isatty():
        raise WrongField("yes", "is required where you cannot be asked to confirm: this would " + question.rstrip("?"))
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
