"""The processes a command starts: each in a group of its own, its words in a log file, gone with the command."""

import os
import subprocess
from pathlib import Path
from typing import Any

from tailrace.streams.process import lifeline

LARGEST_LOG = 4 * 1024 * 1024  # bytes; a log that has grown beyond begins anew with its process


class Family:
    """How children are started: on which store, and with the lifeline that ends them when their parent is gone."""

    def __init__(self, url: str, logs: Path) -> None:
        self.url = url
        self.logs = logs
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._read_end, self._write_end = os.pipe()  # nobody writes: the pipe closes when this process ends

    def close(self) -> None:
        """Let go of the lifeline: whoever still lives ends at once."""
        os.close(self._write_end)
        os.close(self._read_end)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def options(self, name: str, **variables: str | None) -> dict[str, Any]:
        """What Popen must know of a child; a variable that is None is not passed on to it.

        Its own process group keeps Ctrl-C in the terminal from it: we tell it when to end. The session stays ours:
        so the kernel wakes and hangs up a group that was frozen when we die, and its lifeline is heard.
        The store's address travels in the environment, never in the arguments: every user may list those.
        """
        ours = {"REDIS_URL": self.url, "REDIS_URL_FILE": None, lifeline.VARIABLE: str(self._read_end), **variables}
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
