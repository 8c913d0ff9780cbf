"""`submit`: submit a job, print its id and, with `--follow`, follow it to its result."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

from tailrace.ops.cli.watch import decoded, watch
from tailrace.ops.connect import Reached, ask
from tailrace.ops.hints import command, meant
from tailrace.ops.terminal import plain, print_json, say
from tailrace.streams.errors import WrongField
from tailrace.streams.keys import join_id
from tailrace.streams.options import Dedupe, JobOptions, Options

LARGEST_ARGS = 1024 * 1024  # larger data does not go into the store


def run(options: argparse.Namespace) -> int:
    return ask(options, partial(submit, options, read_args(options.args), options_of(options)))


def options_of(given: argparse.Namespace) -> JobOptions:
    """The job options that the flags give."""
    said = {name: value for name, value in vars(given).items() if value is not None}
    options = {name: said[name] for name in Options.__struct_fields__ if name in said}
    dedupe = {name: said[f"dedupe.{name}"] for name in Dedupe.__struct_fields__ if f"dedupe.{name}" in said}
    if dedupe:
        if "key" not in dedupe:
            raise WrongField("dedupe.key", "is needed: it names the key that --dedupe-mode and --dedupe-ttl are about")
        options["dedupe"] = Dedupe(**dedupe)
    return cast(JobOptions, options)


async def submit(options: argparse.Namespace, args: Any, asked: JobOptions, reached: Reached) -> int:
    reached.platforms.known(options.platform)
    known = reached.settings.kinds.built_in
    if options.kind not in known and (hint := meant(options.kind, known)):
        say(f"tailrace: {options.kind} is not a built-in kind{hint} It is submitted as it is.")
    accepted = await reached.client.submit(options.platform, options.kind, args, id=options.id, **asked)
    job_id = accepted.id
    other = accepted.replayed and (options.id is None or job_id != join_id(options.platform, options.id))
    if options.json:
        replayed = accepted.replayed and not other
        print_json({"jobId": job_id, "state": accepted.status, "replayed": replayed, "deduplicated": other})
    else:
        print(job_id, flush=True)
    if other:
        say(f"tailrace: that job has the dedupe key {getattr(options, 'dedupe.key')} already")
    return show_end(options, await watch(reached.store, job_id)) if options.follow else 0


def show_end(options: argparse.Namespace, raw: bytes) -> int:
    """Print the result of the job, or say why there is none; 1 unless it completed."""
    last = decoded(raw)
    completed = last["status"] == "completed"
    if options.json:
        print(raw.decode())
    elif completed:
        print(json.dumps(last.get("result"), ensure_ascii=False))
    if completed:
        return 0
    why = ""
    if error := last.get("error"):
        show = command(f"show {last['jobId']}", options.data)
        why = f": {error.get('type')}: {plain(error.get('message', ''))}; see `{show}`"
    say(f"tailrace: job {last['jobId']} {last['status']}{why}")
    return 1


def read_args(given: str, place: str = "ARGS") -> Any:
    """The value of an argument: JSON itself, `@file`, or `-` for stdin. Raises `WrongField` naming `place`."""
    text = given
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
