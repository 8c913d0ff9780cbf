"""The commands as a person runs them, told about a store by their environment alone: real processes, or right here."""

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from unittest.mock import patch

import pytest

from tailrace.ops.__main__ import main
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.doctor.finding import Finding
from tests.support.processes import OURS

Examine = Callable[..., Awaitable[list[Finding]]]


def environment(**variables: str) -> dict[str, str]:
    """What a command inherits: nothing that the person who runs the tests may have set for Tailrace."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**inherited, "NO_COLOR": "1", **variables}


def begin(*words: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command whose output the caller reads."""
    command = [sys.executable, "-m", "ops", *words]
    return subprocess.Popen(command, cwd=CHECKOUT, env=environment(**variables), stdout=subprocess.PIPE, text=True)


def check_running_jobs(api_url: str) -> subprocess.CompletedProcess[str]:
    script = CHECKOUT / "ops" / "check-running-jobs.sh"
    return subprocess.run([script], env=environment(API_URL=api_url), capture_output=True, text=True, check=False)


def tailrace(*words: str, told: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `told` is what it finds on stdin."""
    return subprocess.run(
        [sys.executable, "-m", "ops", *words],
        cwd=CHECKOUT,
        env=environment(**variables),
        input=told,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def on_terminal(*words: str, columns: int, talk: bool = True, **variables: str) -> str:
    """All that a terminal shows of a command that ends well; without `talk` only what it prints."""
    ours, theirs = pty.openpty()
    told = {**environment(**variables), "TERM": "xterm", "COLUMNS": str(columns)}
    command = [sys.executable, "-m", "ops", *words]
    stderr = theirs if talk else subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=CHECKOUT, env=told, stdin=theirs, stdout=theirs, stderr=stderr)
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the terminal is gone when its last writer is
        while piece := os.read(ours, 4096):
            seen += piece
    os.close(ours)
    assert process.wait(10) == 0
    return seen.decode()


class Here:
    """Runs a command inside this process: many cases cost little."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """The exit code, what it printed, and what it said."""
        with patch.dict(os.environ, environment(**variables), clear=True):
            try:
                code = main([*words])
            except SystemExit as left:  # a line that cannot be read
                code = int(str(left.code))
        said = self._capsys.readouterr()
        return code, said.out, said.err

    async def beside(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """The same, for a test that runs in a loop already: a command brings its own."""
        return await asyncio.to_thread(self, *words, **variables)
