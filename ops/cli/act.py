"""`cancel`, `retry`, `signal`, `drop`, `pause`, `resume`, `restart`: act on one job or one platform."""

import argparse
import getpass
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tailrace.ops.cli.submit import read_args
from tailrace.ops.connect import Reached, ask
from tailrace.ops.hints import command
from tailrace.ops.terminal import print_json
from tailrace.producers.actions import LONGEST_NAME
from tailrace.producers.client import Tailrace
from tailrace.streams.errors import NoConsumer, TailraceError, WrongState
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.states import State

Answer = tuple[dict[str, Any], str]  # for machines, for people


def run(options: argparse.Namespace) -> int:
    facts, sentence = ask(options, partial(act, options))
    if options.json:
        print_json(facts)
    else:
        print(sentence)
    return 0


async def act(options: argparse.Namespace, reached: Reached) -> Answer:
    """Act on a job or a platform; a refusal names the command that helps."""
    try:
        return await ACTS[options.command](reached.client, options)
    except WrongState as error:
        can_end = options.command == "drop" and error.state != State.COMPLETED
        end = f"; to end it: `{command(f'cancel {options.job}', options.data)}`" if can_end else ""
        raise TailraceError(f"{error}{end}; see `{command(f'show {options.job}', options.data)}`") from None
    except NoConsumer as error:
        start = f"`{PROGRAM} consume {options.platform}`, or all: `{PROGRAM} up`"
        raise TailraceError(f"{error}; start one: {start}") from None


async def cancel(client: Tailrace, options: argparse.Namespace) -> Answer:
    acted = await client.cancel(options.job, by=who(options), reason=options.reason)
    said = f"{acted.id} cancelled"
    if acted.status == "cancelling":
        follow = command(f"follow {acted.id}", options.data)
        said = f"{acted.id} runs and is asked to stop; `{follow}` shows when it has"
    return {"jobId": acted.id, "status": acted.status}, said


async def retry(client: Tailrace, options: argparse.Namespace) -> Answer:
    acted = await client.retry(options.job, by=who(options))
    said = f"{acted.id} waits again"
    if child := acted.failed_child:
        again = command(f"retry {child}", options.data)
        said += f", but {child} below it has failed; `{again}` runs that one, and brings {acted.id} back by itself"
    return {"jobId": acted.id, "status": acted.status, "failedChild": acted.failed_child}, said


async def signal(client: Tailrace, options: argparse.Namespace) -> Answer:
    sent = await client.signal(options.job, options.name, read_args(options.json_data, "DATA"))
    said = {
        "delivered": f"{sent.id} awaited {sent.signal} and goes on",
        "kept": f"{sent.signal} is kept until {sent.id} awaits it",
        "again": f"{sent.id} has had {sent.signal} before; the first one counts",
    }
    return {"jobId": sent.id, "signal": sent.signal, "status": sent.status}, said[sent.status]


async def drop(client: Tailrace, options: argparse.Namespace) -> Answer:
    acted = await client.drop(options.job, by=who(options))
    return {"jobId": acted.id, "status": acted.status}, f"{acted.id} dropped"


async def pause(client: Tailrace, options: argparse.Namespace) -> Answer:
    name = options.platform
    already, by, since = await client.pause(name, by=who(options))
    done = f"was paused already{f', by {by}' if by else ''} at {since}" if already else "paused"
    resume = command(f"resume {name}", options.data)
    facts = {"platform": name, "paused": True, "pausedBy": by, "pausedSince": since}
    return facts, f"{name} {done}; `{resume}` lets it go on"


async def resume(client: Tailrace, options: argparse.Namespace) -> Answer:
    name = options.platform
    was_paused = await client.resume(name, by=who(options))
    facts = {"platform": name, "paused": False, "pausedBy": None, "pausedSince": None}
    return facts, f"{name} {'goes on' if was_paused else 'was not paused'}"


async def restart(client: Tailrace, options: argparse.Namespace) -> Answer:
    names = await client.restart(options.platform, by=who(options))
    said = f"asked to drain and start again: {', '.join(names)}"
    facts = {"platform": options.platform, "status": "restarting", "workers": names}
    return facts, f"{said}; `{command('workers', options.data)}` shows which ones are there"


ACTS: dict[str, Callable[[Tailrace, argparse.Namespace], Awaitable[Answer]]] = {
    act.__name__: act for act in (cancel, retry, signal, drop, pause, resume, restart)
}


def who(options: argparse.Namespace) -> str:
    """The name given with `--by`, else the login of this user."""
    if (given := getattr(options, "by", None)) is not None:
        return str(given)
    try:
        return getpass.getuser()[:LONGEST_NAME]
    except (OSError, KeyError):  # no name for this user id, as in some containers
        return "unknown"
