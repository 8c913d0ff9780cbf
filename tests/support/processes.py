"""Real consumers and gateways: each in a process group of its own, to be frozen, killed or drained."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from tests.support import forks

OURS = ("TAILRACE_", "REDIS_", "WORKER_", "SERVICE_", "LOG_", "LLM_", "HOST", "PORT", "PYTHONDONTWRITEBYTECODE")
"""What a person may have set in the environment the tests run in; no process of a test inherits it. The last one would
have each of some hundred processes compile all our modules again: a fifth of its start."""


class Pace(Struct, frozen=True):
    """How fast a consumer lives; all in seconds."""

    deadline: float = 1.5
    beat: float = 0.3
    reap: float = 0.3
    grace: float = 25.0

    def environment(self) -> dict[str, str]:
        return {
            "TAILRACE_DEADLINE_SECONDS": str(self.deadline),
            "TAILRACE_BEAT_SECONDS": str(self.beat),
            "TAILRACE_REAP_SECONDS": str(self.reap),
            "TAILRACE_GRACE_SECONDS": str(self.grace),
        }


UNHURRIED = Pace(deadline=10.0)
"""For tests in which no worker is lost: it takes nothing from them that a busy machine has starved a heart."""


class Process:
    """One program of ours. It leads its own group, so that a signal can reach it with or without its children."""

    def __init__(self, program: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.log = log
        self._process, self._lifeline = forks.start(
            program, arguments, {**inherited, "LOG_FORMAT": "json", **environment}, log
        )

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.exitcode is None

    def freeze(self) -> None:
        """Stop the whole group, as a paused machine does."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9 of the process alone; its children find out by themselves."""
        self._process.kill()
        self._process.join()

    def kill_group(self) -> None:
        """kill -9 of the process and everything it started, at one moment."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()  # it may not lead its group yet
        self._process.join()

    def close(self) -> None:
        """End whatever is left of it."""
        self.kill_group()
        self._lifeline.close()

    def interrupt(self) -> None:
        """SIGTERM to the process alone, as a supervisor does."""
        self._process.terminate()

    def interrupt_group(self) -> None:
        """SIGINT to the whole group, as Ctrl-C in a terminal does."""
        os.killpg(self.pid, signal.SIGINT)

    async def ended(self, seconds: float = 60.0) -> int:
        """Its exit code, once it has ended by itself."""
        patience = time.monotonic() + seconds
        while (code := self._process.exitcode) is None:
            assert time.monotonic() < patience, f"still alive after {seconds:g} s; it said:\n{self.log.read_text()}"
            await asyncio.sleep(0.01)
        return code

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of its log with this event name."""
        lines = self.log.read_text(errors="replace").splitlines()
        told = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [line for line in told if line.get("event") == event]


@contextmanager
def asleep(process: Process) -> Iterator[None]:
    """Another consumer takes the jobs that come meanwhile; too short for a takeover."""
    process.freeze()
    try:
        yield
    finally:
        process.thaw()


class ConsumerProcess(Process):
    """`python -m tailrace.consumers` with its heart."""

    def __init__(
        self, url: str, platforms: Sequence[str], pace: Pace, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.pace = pace
        super().__init__("tailrace.consumers", platforms, {"REDIS_URL": url, **pace.environment(), **environment}, log)

    @property
    def owner(self) -> str:
        """Its name in leases and events; empty until it has one."""
        return next((line["owner"] for line in self.said("consumer_started")), "")

    @property
    def heart(self) -> int:
        """The process id of its heart, 0 when it has none just now."""
        try:
            return next((child.pid for child in psutil.Process(self.pid).children()), 0)
        except psutil.NoSuchProcess:
            return 0

    def kill_heart(self) -> None:
        os.kill(self.heart, signal.SIGKILL)


class GatewayProcess(Process):
    """`python -m tailrace.gateway` on a port of its own."""

    def __init__(self, url: str, port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        settings = {"REDIS_URL": url, "HOST": "127.0.0.1", "PORT": str(port), **environment}
        super().__init__("tailrace.gateway", (), settings, log)
