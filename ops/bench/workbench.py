"""Where things are measured: a store, platforms of one's own in it, and real processes; nothing of it stays."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
import redis
from msgspec import Struct

from tailrace.ops.terminal import say
from tailrace.ops.up.children import Family
from tailrace.ops.up.own_store import OwnStore, free_port
from tailrace.ops.up.up import is_ready
from tailrace.streams.errors import TailraceError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.process import launch, lifeline

HOST = "127.0.0.1"
CONCURRENCY = 128
"""Jobs at a time in the consumer that is measured: enough that neither it nor the store waits for the other."""
PATIENCE_SECONDS = 30.0  # for what should happen at once: the start of a process, an answer
SWEEP = 1000  # keys looked at, and removed, in one call


class Pace(Struct, frozen=True):
    """How a consumer's lease is kept; all in seconds."""

    beat: float
    deadline: float
    reap: float

    def variables(self) -> dict[str, str]:
        return {
            "TAILRACE_BEAT_SECONDS": str(self.beat),
            "TAILRACE_DEADLINE_SECONDS": str(self.deadline),
            "TAILRACE_REAP_SECONDS": str(self.reap),
        }


class Child:
    """A process that is measured, in a group of its own."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._killed = False

    def kill(self) -> None:
        """kill -9, together with whatever it started."""
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def check(self) -> None:
        """Raise what it said last if it has ended by itself."""
        if not self._killed and (code := self._process.poll()) is not None:
            lines = self._log.read_text(errors="replace").splitlines() or ["it said nothing"]
            raise TailraceError(f"{self.name} ended with code {code}: {lines[-1]}")


class Workbench:
    """`with Workbench(…) as bench:` a store of its own, or platforms of its own name in the store of `url`."""

    def __init__(self, url: str | None, data: Path | None, purposes: Sequence[str]) -> None:
        """Each purpose gets a platform. `data` is where an own store keeps its files for as long as this lasts."""
        self.own_store = url is None
        self.name = f"bench-{secrets.token_hex(4)}"
        self.keys = {purpose: PlatformKeys(f"{self.name}-{purpose}") for purpose in purposes}
        self.platforms = Platforms(
            {keys.platform: Policy(max_running_per_process=CONCURRENCY) for keys in self.keys.values()}
        )
        self.url = url or ""
        self._data = data
        self._open = ExitStack()
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            if self._data:
                self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="tailrace-bench-", dir=self._data))
            opening.callback(shutil.rmtree, folder)
            if self.own_store:
                self.url = opening.enter_context(OwnStore(folder / "store")).url
            else:
                opening.callback(self._sweep)
            self._family = Family(self.url, folder)
            opening.callback(self._family.close)
            self._config = folder / "bench.toml"
            tables = (
                f"[platforms.{platform}]\nmax_running_per_process = {CONCURRENCY}\n" for platform in self.platforms
            )
            self._config.write_text("".join(tables))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def consumer(
        self, keys: PlatformKeys, name: str = "consumer", pace: Pace | None = None
    ) -> AbstractContextManager[Child]:
        """A consumer process with the jobs of `bench`; its lease is kept as by default unless a pace is given."""
        command = launch.command("tailrace.consumers", keys.platform, "--handlers", "tailrace.ops.bench.jobs")
        return self._start(name, command, SERVICE_NAME=name, **(pace.variables() if pace else {}))

    @contextmanager
    def gateway(self) -> Iterator[int]:
        """A gateway process; the answer is its port."""
        port = free_port(0)
        with self._start("gateway", launch.command("tailrace.gateway"), HOST=HOST, PORT=str(port)):
            yield port

    @contextmanager
    def _start(self, name: str, command: list[str], **variables: str) -> Iterator[Child]:
        # What this shell has set for Tailrace does not count: everybody measures the same thing.
        ours = ("TAILRACE_", "LLM_")
        unset = {word: "" for word in os.environ if word.startswith(ours) and word != lifeline.VARIABLE}
        options = self._family.options(name, **{**unset, "TAILRACE_CONFIG": str(self._config), **variables})
        with options["stdout"]:
            process = subprocess.Popen(command, **options)
        child = Child(name, process, self._family.log(name))
        self._children.append(child)
        try:
            yield child
        finally:
            self._children.remove(child)
            child.kill()

    async def ready(self, port: int) -> None:
        async def look() -> bool:
            return await anyio.to_thread.run_sync(is_ready, HOST, port)

        await self.until("the gateway is ready", look)

    async def until(self, what: str, happens: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it happens; what is meant to run meanwhile must not end."""
        if not await self.within(PATIENCE_SECONDS, happens):
            raise TailraceError(f"in {PATIENCE_SECONDS:g} s it did not happen that {what}")

    async def within(self, seconds: float, happens: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until it happens, not longer than this; whether it did."""
        patience = time.monotonic() + seconds
        while not await happens():
            for child in self._children:
                child.check()
            if time.monotonic() > patience:
                return False
            await anyio.sleep(0.01)
        return True

    def _sweep(self) -> None:
        """Remove every key of ours from a store that is not ours."""
        prefixes = tuple(keys.prefix.encode() for keys in self.keys.values())
        try:
            with redis.Redis.from_url(self.url) as client:
                cursor = None
                while cursor != 0:
                    cursor, found = client.scan(cursor or 0, match=f"*{self.name}*", count=SWEEP)
                    if ours := [key for key in found if key.startswith(prefixes)]:
                        client.unlink(*ours)
        except redis.RedisError as error:
            say(f"the store does not answer ({error}): keys with {self.name} in their names are left there")
