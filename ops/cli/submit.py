"""`submit`: ask for a job, print its id and, if wanted, follow it to its result."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import anyio
import msgspec
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tailrace.ops.cli.act import declared
from tailrace.ops.cli.story import decoded, follow_story
from tailrace.ops.commands import COMMANDS
from tailrace.ops.connect import reach
from tailrace.ops.hints import command
from tailrace.ops.nearest import meant
from tailrace.ops.terminal import Takeover, about, console, event_line, plain, say
from tailrace.producers import Producer, Submission, Submitted
from tailrace.producers.kinds import KINDS
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import join_id
from tailrace.streams.options import Dedupe, Options
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions

LARGEST_ARGS = 1024 * 1024  # larger data does not go into the store

FLAGS = {
    settings.get("dest") or names[0].removeprefix("--").replace("-", "_"): names[0]
    for names, settings in COMMANDS["submit"].arguments
}
"""What an option of a job is called here."""


def run(options: argparse.Namespace) -> int:
    return anyio.run(submit, options, read_args(options.args), options_of(options))


def options_of(given: argparse.Namespace) -> Options:
    """What the flags say: each has the name of an option, or `dedupe.` and a field of it. A wrong one is named."""
    said = {name: value for name, value in vars(given).items() if value is not None}
    options = {name: said[name] for name in Options.__struct_fields__ if name in said}
    dedupe = {name: said[path] for name in Dedupe.__struct_fields__ if (path := f"dedupe.{name}") in said}
    if dedupe and "key" not in dedupe:
        raise WrongField("--dedupe", "is needed: it names the key that --dedupe-mode and --dedupe-ttl are about")
    try:
        return Options(**options, dedupe=Dedupe(**dedupe) if dedupe else None)
    except WrongField as error:
        raise WrongField(FLAGS.get(error.field, error.field), error.reason) from None


async def submit(options: argparse.Namespace, args: Any, asked: Options) -> int:
    submission = Submission(options.platform, options.kind, args, options.id, asked)
    async with reach(options.data) as store:
        declared(options.platform)
        if options.kind not in KINDS and (hint := meant(options.kind, KINDS)):
            say(f"tailrace: {options.kind} is not a built-in kind{hint} It is submitted as it is.")
        producer = Producer(Transitions(store), StreamsSettings.read().platforms)
        accepted = await producer.submit(submission)
        job_id = accepted.id
        other = accepted.replayed and (options.id is None or job_id != join_id(options.platform, options.id))
        print(answer_of(accepted, deduplicated=other) if options.json else job_id, flush=True)
        if other:
            say(f"tailrace: that job has the dedupe key {asked.dedupe and asked.dedupe.key} already")
        if not options.follow:
            return 0
        raw = await (watch_bar if console(talk=True).is_terminal else watch_lines)(store, job_id)
    last = decoded(raw)
    if options.json:
        print(raw.decode())
    elif last["status"] == "completed":
        print(json.dumps(last.get("result"), ensure_ascii=False))
    if last["status"] == "completed":
        return 0
    error, why = last.get("error"), ""
    if error:
        why = f": {error.get('type')}: {plain(error.get('message', ''))}"
        why += f"; see `{command(f'show {job_id}', options.data)}`"
    say(f"tailrace: job {job_id} {last['status']}{why}")
    return 1


def answer_of(accepted: Submitted, *, deduplicated: bool) -> str:
    """What happened to the request, for machines."""
    facts = {"jobId": accepted.id, "state": accepted.status, "replayed": accepted.replayed and not deduplicated}
    return msgspec.json.encode({**facts, "deduplicated": deduplicated}).decode()


async def watch_lines(store: Store, job_id: str) -> bytes:
    """Show every event; the last of them."""
    talk = console(talk=True)
    takeover = Takeover()
    async for raw in follow_story(store, job_id):
        talk.print(event_line(decoded(raw)))
        if told := takeover.told(decoded(raw)):
            talk.print(told)
    return raw


async def watch_bar(store: Store, job_id: str) -> bytes:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(talk=True)) as bar:
        task = bar.add_task("queued", total=None, note="")
        takeover = Takeover()
        async for raw in follow_story(store, job_id):
            last = decoded(raw)
            if told := takeover.told(last):
                bar.console.print(told)
            step, of = last["step"], last.get("of")
            if isinstance(step, int) and isinstance(of, int):
                bar.update(task, completed=step, total=of)
            if last["status"] == "started":
                bar.update(task, completed=0)  # another attempt begins again
            attempt = f" #{last['attempt']}" if (last["attempt"] or 0) > 1 else ""
            note = plain(last.get("message") or "") if last["status"] == "progress" else about(last)
            bar.update(task, description=last["status"] + attempt, note=note)
    return raw


def read_args(given: str) -> Any:
    """The args as given: JSON itself, `@file`, or `-` for stdin."""
    place, text = "ARGS", given
    try:
        if given == "-":
            place, text = "stdin", sys.stdin.buffer.read(LARGEST_ARGS + 1).decode()
        elif given.startswith("@"):
            place = given[1:]
            with Path(place).open("rb") as file:
                text = file.read(LARGEST_ARGS + 1).decode()
        if len(text.encode()) > LARGEST_ARGS:
            raise WrongField(place, "over 1 MB of args does not go into the store")
        return json.loads(text, parse_constant=refuse_constant)
    except OSError as error:
        raise WrongField(place, f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise WrongField(place, "is nested too deeply") from None
    except ValueError as error:  # not UTF-8, or not JSON: the error names line and column
        raise WrongField(place, f"is not JSON: {error}") from None


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
