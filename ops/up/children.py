"""The processes a command starts: each in its own process group, its output in a log file, gone with the command."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tailrace.ops.terminal import say
from tailrace.streams.errors import BadConfiguration, TailraceError
from tailrace.streams.process import lifeline
from tailrace.streams.process.shutdown import RESTART
from tailrace.streams.process.supervisor import Process, Supervised, cause, end

LARGEST_LOG = 4 * 1024 * 1024  # bytes; a larger log is emptied when its process starts
BAD_CONFIGURATION = 78  # the exit code of a child for which another start is useless


class ChildProcess:
    """A process of a family, with all that it starts."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._killed = False

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def end(self, seconds: float) -> int:
        """Let it drain; its exit code."""
        self._process.terminate()
        return self._process.wait(seconds)

    def kill(self) -> None:
        self._killed = True
        end(self._process)

    def check(self) -> None:
        """Raise the last line of its log if it has ended by itself."""
        if not self._killed and (code := self._process.poll()) is not None:
            raise TailraceError(f"{self.name} ended with code {code}: {last_line(self._log)}")


class Family:
    """Starts children: on one store, and with the lifeline that ends them when their parent is gone."""

    def __init__(self, url: str, logs: Path) -> None:
        self.url = url
        self.logs = logs
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._read_end, self._write_end = os.pipe()  # never written to: the pipe closes when this process ends

    def close(self) -> None:
        """Let go of the lifeline: children that still live end at once."""
        os.close(self._write_end)
        os.close(self._read_end)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def options(self, name: str, **variables: str | None) -> dict[str, Any]:
        """The arguments of Popen for a child; a variable that is None is not passed on to it.

        Its own process group keeps Ctrl-C in the terminal from it: we tell it when to end. The session stays ours:
        so the kernel wakes and hangs up a group that was frozen when we die, and its lifeline is heard.
        The store's address travels in the environment, never in the arguments: every user may list those.
        """
        for_people = os.environ.get("LOG_FORMAT") or "text"  # their logs are files that people open
        ours = {
            "LOG_FORMAT": for_people,
            "REDIS_URL": self.url,
            "REDIS_URL_FILE": None,
            lifeline.VARIABLE: str(self._read_end),
            **variables,
        }
        environment = {name: value for name, value in {**os.environ, **ours}.items() if value is not None}
        path = self.log(name)
        mode = "ab" if path.exists() and path.stat().st_size <= LARGEST_LOG else "wb"
        return {
            "stdin": subprocess.DEVNULL,
            "stdout": path.open(mode, buffering=0),
            "stderr": subprocess.STDOUT,
            "process_group": 0,
            "pass_fds": [self._read_end],
            "env": environment,
        }

    @contextmanager
    def running(self, name: str, command: Sequence[str], **variables: str | None) -> Iterator[ChildProcess]:
        """A child, which is killed at the end of the block if it still lives."""
        options = self.options(name, **variables)
        with options["stdout"]:
            child = ChildProcess(name, subprocess.Popen(command, **options), self.log(name))
        try:
            yield child
        finally:
            child.kill()


class KeptChild(Supervised):
    """A child that is started again when it dies, with growing pauses, until it is asked to end."""

    def __init__(self, family: Family, name: str, command: Sequence[str], **variables: str | None) -> None:
        super().__init__()
        self._family = family
        self._name = name
        self._command = command
        self._variables = variables

    def start(self) -> Process:
        options = self._family.options(self._name, **self._variables)
        with options["stdout"]:
            return subprocess.Popen(self._command, **options)

    def report(self, end: int | OSError, pause: float) -> None:
        log = self._family.log(self._name)
        if isinstance(end, OSError):  # no space for its log, or too many processes
            say(f"{self._name} {cause(end)}; another try in {pause:g} s")
        elif end == BAD_CONFIGURATION:
            raise BadConfiguration(f"{self._name} does not start: {last_line(log)}")
        elif self.process:
            child = f"{self._name} (process {self.process.pid})"
            if end == RESTART:
                say(f"{child} was asked to restart; another starts now")
            else:
                say(f"{child} {cause(end)}; another starts in {pause:g} s (see {log})")


def last_line(log: Path) -> str:
    """The last line of a log file."""
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"
