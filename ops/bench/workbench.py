"""The environment of `bench`: a store, its own platforms in it, and real processes; nothing of it stays."""

import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from tailrace.ops.terminal import say
from tailrace.ops.up.children import ChildProcess, Family
from tailrace.ops.up.own_store import OwnStore, free_port
from tailrace.ops.up.up import is_ready
from tailrace.streams.errors import StoreError, TailraceError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.process import launch, lifeline
from tailrace.streams.store.connection import Store

HOST = "127.0.0.1"
CONCURRENCY = 128
"""Jobs at a time in the consumer that is measured: enough that neither it nor the store waits for the other."""
PATIENCE_SECONDS = 30.0  # for what should happen at once: the start of a process, an answer
SWEEP = 1000  # keys looked at, and removed, in one call


class Pace(Struct, frozen=True):
    """Beat and deadline of a consumer, in seconds."""

    beat: float
    deadline: float
    reap: float

    def variables(self) -> dict[str, str]:
        return {
            "TAILRACE_BEAT_SECONDS": str(self.beat),
            "TAILRACE_DEADLINE_SECONDS": str(self.deadline),
            "TAILRACE_REAP_SECONDS": str(self.reap),
        }


class Workbench:
    """A store made by `open_workbench`, and the processes that are started on it."""

    def __init__(self, family: Family, keys: Mapping[str, PlatformKeys], *, own_store: bool) -> None:
        self.own_store = own_store
        self.keys = keys
        self.platforms = Platforms(
            {each.platform: Policy(max_running_per_process=CONCURRENCY) for each in keys.values()}
        )
        self.url = family.url
        self._family = family
        self._config = family.logs / "bench.toml"
        tables = (f"[platforms.{name}]\nmax_running_per_process = {CONCURRENCY}\n" for name in self.platforms)
        self._config.write_text("".join(tables))
        self._children: list[ChildProcess] = []

    def consumer(
        self, keys: PlatformKeys, name: str = "consumer", pace: Pace | None = None
    ) -> AbstractContextManager[ChildProcess]:
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
    def _start(self, name: str, command: list[str], **variables: str) -> Iterator[ChildProcess]:
        # The settings of this shell do not count: every run measures the same thing.
        ours = ("TAILRACE_", "LLM_")
        unset = {word: "" for word in os.environ if word.startswith(ours) and word != lifeline.VARIABLE}
        told = {**unset, "TAILRACE_CONFIG": str(self._config), **variables}
        with self._family.running(name, command, **told) as child:
            self._children.append(child)
            try:
                yield child
            finally:
                self._children.remove(child)

    async def ready(self, port: int) -> None:
        async def look() -> bool:
            return await anyio.to_thread.run_sync(is_ready, HOST, port)

        await self.until("the gateway was not ready", look)

    async def until(self, what: str, happens: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it happens; `what` is the error if it does not. Processes started here must not end meanwhile."""
        if not await self.within(PATIENCE_SECONDS, happens):
            raise TailraceError(f"after {PATIENCE_SECONDS:g} s, {what}")

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


@contextmanager
def open_workbench(url: str | None, data: Path | None, purposes: Sequence[str]) -> Iterator[Workbench]:
    """A platform for each purpose, in a store of its own, whose files are under `data`, or in the store of `url`."""
    name = f"bench-{secrets.token_hex(4)}"
    keys = {purpose: PlatformKeys(f"{name}-{purpose}") for purpose in purposes}
    if data:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-bench-", dir=data)))
        if url:
            opened.callback(sweep, url, name, list(keys.values()))
        family = Family(url or opened.enter_context(OwnStore(folder / "store")).url, folder)
        opened.callback(family.close)
        yield Workbench(family, keys, own_store=url is None)


def sweep(url: str, name: str, platforms: Sequence[PlatformKeys]) -> None:
    """Remove every key of ours from a store that is not ours, in a thread: this one may run a loop."""
    try:
        with ThreadPoolExecutor(1) as other:
            other.submit(anyio.run, remove_keys, url, name, platforms).result()
    except StoreError as error:
        say(f"the store does not answer ({error}): keys with {name} in their names are left there")


async def remove_keys(url: str, name: str, platforms: Sequence[PlatformKeys]) -> None:
    prefixes = tuple(keys.prefix.encode() for keys in platforms)
    async with Store(url) as store:
        await store.command("HDEL", store.keyspace.platforms, *(keys.platform for keys in platforms))
        for node in await store.nodes():
            cursor = None
            while cursor != b"0":
                cursor, found = await node.command("SCAN", cursor or 0, "MATCH", f"*{name}*", "COUNT", SWEEP)
                await node.commands(("UNLINK", key) for key in found if key.startswith(prefixes))
