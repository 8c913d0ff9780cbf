"""Processes of ours that begin with our modules imported, which is most of the start of a consumer or a gateway.

A server of multiprocessing imports them once for a test run and forks a process for each that is asked for. Each is a
process like any other: its own group, environment, output, signals and exit code. That `python -m` starts the same is
tested where commands are.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tailrace.streams.process import lifeline

ROOT = Path(__file__).resolve().parents[2]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["tailrace.consumers.__main__", "tailrace.gateway.__main__", "anyio._backends._asyncio", "structlog", "uvloop"]
)


def start(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[BaseProcess, Connection]:
    """The process, and its lifeline: nothing is written there; it closes when the test run ends, however it ends."""
    log.write_bytes(b"")
    held, line = _context.Pipe(duplex=False)
    told = (program, list(arguments), dict(environment), str(log), held)
    process = _context.Process(target=_run, args=told, daemon=True)
    process.start()
    held.close()
    return process, line


def _run(program: str, arguments: list[str], environment: dict[str, str], log: str, held: Connection) -> None:
    os.setpgid(0, 0)
    os.chdir(ROOT)
    said = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    os.environ.clear()
    os.environ.update(environment | {lifeline.VARIABLE: str(held.fileno())})
    sys.argv = [program, *arguments]
    sys.exit(import_module(f"{program}.__main__").main())
