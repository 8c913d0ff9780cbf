"""`cancel`, `retry`, `drop`, `pause`, `resume`, `restart`: act on one job or one platform."""

import argparse
import getpass
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from tailrace.ops.connect import reach
from tailrace.ops.hints import command
from tailrace.ops.nearest import meant
from tailrace.producers.actions import LONGEST_NAME, ActionResult, Actions
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import NoConsumer, TailraceError, WrongField, WrongState
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

FLAGS = {"by", "reason"}

Answer = tuple[dict[str, Any], str]  # for machines, for people


def run(options: argparse.Namespace) -> int:
    facts, sentence = anyio.run(act, options)
    print(msgspec.json.encode(facts).decode() if options.json else sentence)
    return 0


async def act(options: argparse.Namespace) -> Answer:
    async with reach(options.data) as store:
        try:
            return await ACTS[options.command](store, options)
        except WrongField as error:  # named as it is typed
            raise WrongField(f"--{error.field}", error.reason) if error.field in FLAGS else error from None
        except WrongState as error:
            raise TailraceError(f"{error}; see `{command(f'show {options.job}', options.data)}`") from None


async def cancel(store: Store, options: argparse.Namespace) -> Answer:
    acted = await actions(store).cancel(options.job, by=who(options), reason=options.reason)
    if acted.status == "cancelling":
        follow = command(f"follow {options.job}", options.data)
        return facts(acted), f"{options.job} runs and is asked to stop; `{follow}` shows when it has"
    return facts(acted), f"{options.job} cancelled"


async def retry(store: Store, options: argparse.Namespace) -> Answer:
    acted = await actions(store).retry(options.job, by=who(options))
    return facts(acted), f"{options.job} waits again"


async def drop(store: Store, options: argparse.Namespace) -> Answer:
    try:
        acted = await actions(store).drop(options.job)
    except WrongState as error:
        if error.state == State.COMPLETED:
            raise
        end = command(f"cancel {options.job}", options.data)
        raise WrongState(error.job_id, error.state, f"{error.why}; to end it: `{end}`") from None
    return facts(acted), f"{options.job} dropped"


async def pause(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    already, by, since = await actions(store).pause(keys.platform, by=who(options))
    told = {"platform": keys.platform, "paused": True, "pausedBy": by, "pausedSince": since}
    done = f"was paused already, by {by or 'somebody'} at {since}" if already else "paused"
    return told, f"{keys.platform} {done}; `{command(f'resume {keys.platform}', options.data)}` lets it go on"


async def resume(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    was_paused = await actions(store).resume(keys.platform)
    told = {"platform": keys.platform, "paused": False, "pausedBy": None, "pausedSince": None}
    return told, f"{keys.platform} {'goes on' if was_paused else 'was not paused'}"


async def restart(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    try:
        names = await actions(store).restart(keys.platform)
    except NoConsumer as error:
        name = keys.platform
        raise TailraceError(f"{error}; start one: `{PROGRAM} consume {name}`, or all: `{PROGRAM} up`") from None
    workers = command("workers", options.data)
    told = f"asked to drain and start again: {', '.join(names)}; `{workers}` shows which ones are there"
    return {"platform": keys.platform, "status": "restarting", "workers": names}, told


ACTS: dict[str, Callable[[Store, argparse.Namespace], Awaitable[Answer]]] = {
    "cancel": cancel,
    "retry": retry,
    "drop": drop,
    "pause": pause,
    "resume": resume,
    "restart": restart,
}


def actions(store: Store) -> Actions:
    return Actions(Transitions(store), StreamsSettings.read().platforms)


def declared(name: str) -> PlatformKeys:
    """The keys of a platform. Raises `WrongField` naming those that are declared, and the one that may be meant."""
    platforms = StreamsSettings.read().platforms
    try:
        return PlatformKeys(platforms.known(name))
    except WrongField as error:
        raise WrongField(error.field, error.reason + meant(name, platforms)) from None


def who(options: argparse.Namespace) -> str:
    """The name that is given, else that of the user who is logged in here."""
    if options.by is not None:
        return str(options.by)
    try:
        return getpass.getuser()[:LONGEST_NAME]
    except (OSError, KeyError):  # no name for this user id, as in some containers
        return "somebody"


def facts(acted: ActionResult) -> dict[str, Any]:
    return {"jobId": acted.id, "status": acted.status}
