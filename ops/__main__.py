"""The command line: what `tailrace.ops.commands` lists, each a module that is imported only when it is asked for.

The module of a command, `tailrace.ops.cli.<command>` unless the table names another one, holds

    def run(options: argparse.Namespace) -> int

and returns the exit code. A role (`gateway`, `consume`) is the `main() -> int` of its package's `__main__`, and
finds its part of the line in `sys.argv`. What it takes is in the table as well: help imports no package.

Exit codes: 0 ok, 1 failed, 2 usage, 69 no store, 78 bad configuration, 130 interrupted, 141 stdout was closed.
"""

import argparse
import importlib
import os
import re
import sys
from typing import NoReturn

from tailrace.ops import bootstrap
from tailrace.ops.commands import COMMANDS, GROUPS, flags_of
from tailrace.ops.hints import DEFAULT_DATA, meant


class Parser(argparse.ArgumentParser):
    """The command line: its help lists the commands in groups, and a mistyped one is answered with the nearest."""

    def format_help(self) -> str:
        parts = [self.format_usage(), self.description]
        for title, names in GROUPS.items():
            parts.append("\n".join([f"{title}:", *(f"    {name:11}{COMMANDS[name].help}" for name in names)]))
        return "\n\n".join([*(str(part).strip() for part in parts), "tailrace COMMAND --help tells what it takes.\n"])

    def error(self, message: str) -> NoReturn:
        if typed := re.search(r"argument COMMAND: invalid choice: '(.*?)'", message):
            hint = meant(typed[1], COMMANDS) or "; `tailrace --help` lists them"
            message = f"there is no command {typed[1]}{hint}"
        super().error(message)


class Version(argparse.Action):
    """Reads the version when it is asked for: help and usage need no metadata."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"tailrace {version('tailrace')}")
        except PackageNotFoundError:
            print("tailrace, in a checkout that is not installed")
        parser.exit(0)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="tailrace", description="Background jobs with one visible history each.", allow_abbrev=False)
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name, command in COMMANDS.items():
        forms = command.usage.replace("\n", f"\n       tailrace {name} ")
        usage = f"tailrace {name} [-h] {forms}" if forms else None
        subparser = subparsers.add_parser(
            name, help=command.help, description=command.help + command.more, allow_abbrev=False, usage=usage
        )
        for names, settings in command.arguments:
            subparser.add_argument(*names, **settings)
    options, rest = parser.parse_known_args(argv)
    if options.command is None and rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if options.command is None:  # without a command: show the help
        parser.print_help()
        parser.exit(0)
    if rest and not COMMANDS[options.command].takes_rest:  # flags may stand between the words
        words = list(sys.argv[1:] if argv is None else argv)
        own = words[words.index(options.command) + 1 :]
        fresh = argparse.Namespace(command=options.command)  # argparse warns of values that it put there itself
        options = subparsers.choices[options.command].parse_intermixed_args(own, fresh)
        rest = []
    options.rest = rest
    return options


def run(options: argparse.Namespace) -> int:
    """Run the command. An error that a user can solve is one sentence, never a traceback."""
    try:
        code = run_command(options)
        sys.stdout.flush()
    except BaseException as error:
        known = exit_code(innermost(error), options.command)
        if known is None:
            raise
        code = known
    return code


def run_command(options: argparse.Namespace) -> int:
    role = COMMANDS[options.command].role
    code: int
    if role:
        use_running_store()
        sys.argv = [f"tailrace {options.command}", *words_of(options)]
        code = importlib.import_module(f"tailrace.{role}.__main__").main()
    else:
        module = COMMANDS[options.command].module or f"cli.{options.command}"
        command = importlib.import_module(f"tailrace.ops.{module}").run
        if getattr(options, "watch", False):
            from tailrace.ops.watching import watch

            return watch(options, command)
        code = command(options)
    return code


def words_of(options: argparse.Namespace) -> list[str]:
    """The line of a role, written out in order."""
    words: list[str] = []
    for (name, *_), _ in COMMANDS[options.command].arguments:
        value = getattr(options, name.removeprefix("--"))
        if not name.startswith("--"):
            words += value
        elif value is True:
            words.append(name)
        elif value is not None and value is not False:
            words.append(f"{name}={value}")
    return words


def use_running_store() -> None:
    """Without an address of its own a role joins the `up` that runs on the default data folder, if there is one."""
    if not (os.environ.keys() & {"REDIS_URL", "REDIS_URL_FILE"} or os.environ.get("REDIS_HOST")):
        from tailrace.streams.process.data_folder import find_running, settings_of

        if url := find_running(DEFAULT_DATA):
            # The settings of `up` about platforms count too, unless our own environment sets them.
            told = {name: value for name, value in settings_of(DEFAULT_DATA).items() if not os.environ.get(name)}
            os.environ.update(told, REDIS_URL=url)


def exit_code(error: BaseException, command: str) -> int | None:
    """Print the error and return its exit code. None: a bug, which keeps its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, SystemExit):
        return None
    if isinstance(error, BrokenPipeError):
        # Python flushes stdout once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141

    from tailrace.streams.errors import BadConfiguration, NoStore, StoreError, TailraceError, WrongField

    if not isinstance(error, TailraceError):
        return None
    if isinstance(error, WrongField):  # named as it is typed
        typed = {"jobId": "JOB", **flags_of(command)}
        reason = re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda name: typed.get(name[0], name[0]), error.reason)
        error = WrongField(typed.get(error.field, error.field), reason)
    print(f"tailrace: {error}", file=sys.stderr)
    if isinstance(error, StoreError) and error.job_ids:
        job_id = error.job_ids[0] or ""
        key = job_id.partition(".")[2]
        print(f"job {job_id} may have been accepted; to try again safely, add --id {key}", file=sys.stderr)
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
