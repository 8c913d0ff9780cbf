"""A running `up`, from the checkout or as the installed command."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tailrace.ops.bootstrap import CHECKOUT
from tests.ops.commands import environment
from tests.support.ports import free_port

QUICK = {"TAILRACE_BEAT_SECONDS": "0.3", "TAILRACE_DEADLINE_SECONDS": "1.5", "TAILRACE_REAP_SECONDS": "0.3"}
INSTALLED = str(Path(sys.executable).with_name("tailrace"))


class Up:
    """A running `up`."""

    def __init__(
        self,
        data: Path,
        platforms: str = "research",
        *flags: str,
        cwd: str = "",
        program: str = INSTALLED,
        **variables: str,
    ) -> None:
        """From the checkout; or, as the installed command, in another folder."""
        self.data = data
        self.port = free_port()
        self.log = data.parent / f"up-{self.port}.log"
        words = ["up", "--data", str(data), "--port", str(self.port), "--platforms", platforms, *flags]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [program, *words] if cwd else [sys.executable, "-m", "ops", *words],
                cwd=cwd or CHECKOUT,
                env=environment(**{**QUICK, **variables}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text()

    def wait_until(self, what: str, happens: Callable[[], object], seconds: float = 20) -> None:
        patience = time.monotonic() + seconds
        while not happens():
            assert time.monotonic() < patience, f"not within {seconds} s: {what}; it said\n{self.said()}"
            time.sleep(0.02)

    def wait_until_ready(self) -> None:
        self.wait_until("ready", lambda: self.process.poll() is not None or "stop " in self.said())
        assert self.process.poll() is None, self.said()

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def consumer(self, lane: str) -> psutil.Process | None:
        """The consumer of a lane, once its heart runs."""
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):  # it may end while we look
                if child.cmdline()[-2:] == ["tailrace.consumers", lane] and child.children():
                    return child
        return None

    def wait_for_consumer(self, lane: str) -> psutil.Process:
        self.wait_until(f"a consumer serves {lane}", lambda: self.consumer(lane))
        found = self.consumer(lane)
        assert found
        return found

    def call(self, method: str, path: str, body: Any = None) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            link.request(method, path, json.dumps(body) if body else None, headers)
            return json.loads(link.getresponse().read())
        finally:
            link.close()

    def submit(self, **args: Any) -> str:
        job: str = self.call("POST", "/api/jobs", {"platform": "research", "kind": "drill", "args": args})["jobId"]
        return job

    def history(self, job: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.call("GET", f"/research/history/{job}")
        return events

    def wait_for(self, job: str, status: str) -> list[dict[str, Any]]:
        self.wait_until(f"{job} {status}", lambda: self.history(job)[-1]["status"] == status)
        return self.history(job)

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal does: to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        return self.process.wait(20)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            children = self.children()
            self.process.kill()
            self.process.wait()
            for child in children:
                if child.is_running():
                    child.kill()
