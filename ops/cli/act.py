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
from tailrace.producers.producer import new_key
from tailrace.streams.errors import JobNotFound, TailraceError, WrongField
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.messages import encode
from tailrace.streams.pauses import pause_platform
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.process.settings import StreamsSettings
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

WHO, WHY = 100, 300  # characters, as over HTTP

Answer = tuple[dict[str, Any], str]  # for machines, for people


def run(options: argparse.Namespace) -> int:
    facts, sentence = anyio.run(act, options)
    print(msgspec.json.encode(facts).decode() if options.json else sentence)
    return 0


async def act(options: argparse.Namespace) -> Answer:
    async with reach(options.data) as store:
        return await ACTS[options.command](store, options)


async def cancel(store: Store, options: argparse.Namespace) -> Answer:
    keys, key = locate(options.job)
    more = {"by": who(options), **({"reason": checked(options.reason, "--reason", WHY)} if options.reason else {})}
    word = await Transitions(store).cancel(keys, key, members(more))
    if word == "cancelling":
        follow = command(f"follow {options.job}", options.data)
        told = f"{options.job} runs and is asked to stop; `{follow}` shows when it has"
        return {"jobId": options.job, "status": word}, told
    if word in {"ok", "again"}:
        return {"jobId": options.job, "status": State.CANCELLED}, f"{options.job} cancelled"
    raise refused(options, word, "there is nothing left to cancel")


async def retry(store: Store, options: argparse.Namespace) -> Answer:
    keys, key = locate(options.job)
    word = await Transitions(store).reopen(keys, key, members({"by": who(options)}))
    if word != "ok":
        raise refused(options, word, "only a failed or a cancelled job can be retried")
    return {"jobId": options.job, "status": State.WAITING}, f"{options.job} waits again"


async def drop(store: Store, options: argparse.Namespace) -> Answer:
    keys, key = locate(options.job)
    word = await Transitions(store).drop(keys, key)
    if word != "ok":
        end = command(f"cancel {options.job}", options.data)
        hint = "" if word in {State.COMPLETED, "missing"} else f"; to end it: `{end}`"
        raise refused(options, word, "only a failed or a cancelled job can be dropped" + hint)
    return {"jobId": options.job, "status": "dropped"}, f"{options.job} dropped"


async def pause(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    already, by, since = await pause_platform(Transitions(store), keys, who(options))
    facts = {"platform": keys.platform, "paused": True, "pausedBy": by, "pausedSince": since}
    done = f"was paused already, by {by or 'somebody'} at {since}" if already else "paused"
    return facts, f"{keys.platform} {done}; `{command(f'resume {keys.platform}', options.data)}` lets it go on"


async def resume(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    word = await Transitions(store).resume(keys)
    facts = {"platform": keys.platform, "paused": False, "pausedBy": None, "pausedSince": None}
    return facts, f"{keys.platform} {'was not paused' if word == 'again' else 'goes on'}"


async def restart(store: Store, options: argparse.Namespace) -> Answer:
    keys = declared(options.platform)
    transitions, request = Transitions(store), new_key()
    (beats,) = await transitions.observe([keys])
    while beats and await transitions.restart(keys, request, beats) is None:
        (beats,) = await transitions.observe([keys])  # a worker has started since
    if not beats:
        name = keys.platform
        raise TailraceError(f"no consumer serves {name}; start one: `{PROGRAM} consume {name}`, or all: `{PROGRAM} up`")
    names = sorted(beats)
    told = f"asked to drain and start anew: {', '.join(names)}; `{command('workers', options.data)}` shows who is there"
    return {"platform": keys.platform, "status": "restarting", "workers": names}, told


ACTS: dict[str, Callable[[Store, argparse.Namespace], Awaitable[Answer]]] = {
    "cancel": cancel,
    "retry": retry,
    "drop": drop,
    "pause": pause,
    "resume": resume,
    "restart": restart,
}


def locate(job_id: str) -> tuple[PlatformKeys, str]:
    platform, key = split_id(job_id)
    return PlatformKeys(platform), key


def declared(name: str) -> PlatformKeys:
    """The keys of a platform. Raises `WrongField` naming those that are declared, and the one that may be meant."""
    platforms = StreamsSettings.read().platforms
    try:
        return PlatformKeys(platforms.known(name))
    except WrongField as error:
        raise WrongField(error.field, error.reason + meant(name, platforms)) from None


def who(options: argparse.Namespace) -> str:
    """Whoever is named, else whoever is logged in here."""
    if options.by is not None:
        return checked(options.by, "--by", WHO)
    try:
        return getpass.getuser()[:WHO]
    except (OSError, KeyError):  # no name for this user id, as in some containers
        return "somebody"


def checked(text: str, flag: str, most: int) -> str:
    if not 1 <= len(text) <= most:
        raise WrongField(flag, f"must have 1 to {most} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongField(flag, "is not UTF-8") from None
    return text


def members(told: dict[str, str]) -> bytes:
    """What an event says beside the usual."""
    return b"," + encode(told)[1:-1]


def refused(options: argparse.Namespace, word: str, why: str) -> TailraceError:
    job_id, show = options.job, command(f"show {options.job}", options.data)
    if word == "missing":
        return JobNotFound(job_id)
    ended = "has ended" if State(word).ended else "has not ended"
    return TailraceError(f"job {job_id} {ended}: it is {word}, and {why}; see `{show}`")
