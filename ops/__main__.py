"""The command line: one table of commands, each a module that is imported only when it is asked for.

The module `ops.<command>` holds

    def run(options: argparse.Namespace) -> int

and returns the exit code. A role (`gateway`, `consume`) is the `main() -> int` of its package's `__main__`, and
finds the rest of the line in `sys.argv`.

Exit codes: 0 ok, 1 failed, 2 usage, 69 no store, 78 bad configuration, 130 interrupted, 141 nobody reads on.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ops import bootstrap


class Argument(NamedTuple):
    names: tuple[str, ...]
    settings: dict[str, Any]


class Command(NamedTuple):
    help: str
    arguments: tuple[Argument, ...] = ()
    role: str = ""
    """The package whose own command line this is."""
    usage: str = ""
    """What a role takes, for its help: the role itself is not imported for that."""
    takes_rest: bool = False
    """What we do not know is no error: it is in `options.rest`, for the tool behind the command."""


def argument(*names: str, **settings: Any) -> Argument:
    return Argument(names, settings)


JOB = argument("job", metavar="JOB", help="the job id, <platform>.<key>")
JSON = argument("--json", action="store_true", help="for machines")
DATA = argument(
    "--data",
    metavar="DIR",
    type=Path,
    default=Path(".tailrace"),
    help="the data folder of `up` (default: .tailrace)",
)

COMMANDS = {
    "up": Command(
        "run everything on this machine: store, gateway, consumers",
        (
            argument("--port", type=int, help="of the gateway (default: PORT, else 3989)"),
            DATA,
            argument("--platforms", metavar="A,B,…", help="start consumers for these only (default: all)"),
        ),
    ),
    "race": Command(
        "freeze a worker in mid-job, let another take over, thaw it, show the history",
        (
            argument("--rounds", metavar="N", type=int, default=1, help="how many races (default: 1)"),
            argument("--moment", metavar="SECONDS", type=float, help="into the job, to freeze it (default: random)"),
            argument("--seed", metavar="N", type=int, help="of the random moments (default: random)"),
            JSON,
        ),
    ),
    "gateway": Command("serve HTTP in the foreground", role="gateway", takes_rest=True, usage="[--host H] [--port N]"),
    "consume": Command(
        "work on jobs in the foreground",
        role="consumers",
        takes_rest=True,
        usage="[PLATFORM …] [--handlers MODULE]",
    ),
    "submit": Command(
        "ask for a job and print its id",
        (
            argument("platform", metavar="PLATFORM", help="where it is done"),
            argument("kind", metavar="KIND", help="what is to be done"),
            argument("args", metavar="ARGS", nargs="?", default="{}", help="JSON, @file or - (default: {})"),
            argument("--id", metavar="KEY", help="your own key: the same one twice is one job"),
            argument(
                "--priority", metavar="BAND", default="normal", help="urgent, high, normal or low (default: normal)"
            ),
            argument("--follow", action="store_true", help="show the progress, then the result"),
            DATA,
        ),
    ),
    "follow": Command("show a job live until it ends", (JOB, JSON, DATA)),
    "history": Command("show what happened to a job", (JOB, JSON, DATA)),
    "show": Command("show the record of a job", (JOB, JSON, DATA)),
    "running": Command("list what runs and what waits", (JSON, DATA)),
    "doctor": Command(
        "say whether the store is fit and every job has a way forward",
        (argument("--repair", action="store_true", help="mend what can be mended safely"), JSON, DATA),
    ),
    "bench": Command(
        "measure how fast it is here, beside what this store can do at all",
        (
            argument("--quick", action="store_true", help="in a few seconds, less exactly"),
            argument("--only", metavar="A,B,…", help="these measures (default: all)"),
            argument(
                "--data", metavar="DIR", type=Path, help="where the own store writes (default: a temporary folder)"
            ),
            JSON,
        ),
    ),
    "test": Command("run the tests; pytest's own options may follow", takes_rest=True),
    "check": Command("check format, lint, types and imports"),
}


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tailrace", description="Background jobs with one visible history each.", allow_abbrev=False
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        usage = f"tailrace {name} [-h] {command.usage}" if command.usage else None
        subparser = subparsers.add_parser(
            name, help=command.help, description=command.help, allow_abbrev=False, usage=usage
        )
        for names, settings in command.arguments:
            subparser.add_argument(*names, **settings)
    options, rest = parser.parse_known_args(argv)
    if rest and not COMMANDS[options.command].takes_rest:
        subparsers.choices[options.command].error("unrecognized arguments: " + " ".join(rest))
    options.rest = rest
    return options


def run(options: argparse.Namespace) -> int:
    """Run the command; whatever a person can mend comes out as one sentence, never as a traceback."""
    try:
        code = run_command(options)
        sys.stdout.flush()
    except BaseException as error:
        known = exit_code(innermost(error))
        if known is None:
            raise
        code = known
    return code


def run_command(options: argparse.Namespace) -> int:
    role = COMMANDS[options.command].role
    code: int
    if role:
        use_running_store()
        sys.argv = [f"tailrace {options.command}", *options.rest]
        code = importlib.import_module(f"{role}.__main__").main()
    else:
        code = importlib.import_module(f"ops.{options.command}").run(options)
    return code


def use_running_store() -> None:
    """Without an address of its own a role joins the `up` that runs on the default data folder, if there is one."""
    if not any(os.environ.get(name) for name in ("REDIS_URL", "REDIS_URL_FILE", "REDIS_HOST")):
        from ops.store import find_running

        if url := find_running(DATA.settings["default"]):
            os.environ["REDIS_URL"] = url


def exit_code(error: BaseException) -> int | None:
    """What an error means to the caller's shell; None when it is not ours to say: a bug deserves its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, SystemExit):
        return None
    if isinstance(error, BrokenPipeError):
        # Python flushes stdout once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141

    from streams.errors import BadConfiguration, NoStore, TailraceError, WrongField

    if not isinstance(error, TailraceError):
        return None
    print(f"tailrace: {error}", file=sys.stderr)
    codes = {NoStore: 69, BadConfiguration: 78, WrongField: 2}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 1)


def innermost(error: BaseException) -> BaseException:
    """The one error inside the groups that task groups wrap around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def main(argv: list[str] | None = None) -> int:
    return run(parse(argv))


if __name__ == "__main__":
    asked = parse(None)  # help and usage need no packages
    bootstrap.enter_environment(asked.command)
    sys.exit(run(asked))
