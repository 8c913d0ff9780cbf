"""`init`: write a starter project: a handler with its test, a configuration, and a compose file to run it."""

import argparse
import os
import shlex
import sys
from pathlib import Path

from tailrace.ops.hints import DEFAULT_DATA, command
from tailrace.ops.terminal import say
from tailrace.streams.errors import TailraceError, WrongField

PROJECT = Path(__file__).parent / "project"
HIDDEN = ("env.example",)  # written with a dot in front: a package may leave such files out


def run(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    refuse_contents(folder)
    files = {target_of(path): path.read_text() for path in sorted(PROJECT.iterdir()) if path.is_file()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise TailraceError(f"cannot write {error.filename}: {error.strerror}") from None
    say(f"wrote      {', '.join(files)} in {folder}")
    print(next_steps(folder))
    return 0


def refuse_contents(folder: Path) -> None:
    """Raise `WrongField` for a folder that is not empty."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise WrongField("DIR", f"{folder} is not empty; name a new or an empty folder")
    except NotADirectoryError:
        raise WrongField("DIR", f"{folder} is a file; name a new or an empty folder") from None
    except OSError as error:
        raise WrongField("DIR", f"cannot look into {folder}: {error.strerror}") from None


def target_of(path: Path) -> str:
    return f".{path.name}" if path.name in HIDDEN else path.name


def next_steps(folder: Path) -> str:
    """The next commands to type, from the current folder."""
    python = os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    settings = (f"TAILRACE_CONFIG={folder / 'tailrace.toml'}", f"TAILRACE_HANDLERS={folder / 'handlers.py'}")
    job = """submit greetings greet '{"names": ["Ada", "Grace"]}' --follow"""
    return f"""test       {shlex.quote(python)} -m unittest discover {shlex.quote(str(folder))}
run        {" ".join(map(shlex.quote, settings))} {command("up", DEFAULT_DATA)}
submit     {command(job, DEFAULT_DATA)}"""
