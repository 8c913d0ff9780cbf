"""The way to the store: short commands share a connection, blocking reads have their own, nothing is sent twice.

A command is sent once. When its answer is lost it may or may not have been carried out: whoever called knows whether
it may be repeated, because every transition carries what makes it idempotent.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Self

import hiredis

from streams.errors import BadConfiguration, NoStore, StoreError, StoreFull, UnfitStore
from streams.functions import Script
from streams.wire import Door, Wire

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0  # a server that does not answer a short command by then is treated as away

Command = tuple[Any, ...]


class ServerRefusal(StoreError):
    """The server answered with an error that is nobody's setting: a bug, or a key that somebody else wrote."""


class Store:
    """One server as this process reaches it."""

    def __init__(self, url: str, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.url = url
        self._answer_seconds = answer_seconds
        self._door = Door(url, CONNECT_SECONDS)
        self._wire: Wire | None = None
        self._opening: asyncio.Task[Wire] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._opening and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._wire:
            self._wire.close()

    def blocking(self, block_seconds: float) -> "Store":
        """Another way to the same server, for one reader that waits up to `block_seconds` on the server."""
        return Store(self.url, answer_seconds=block_seconds + ANSWER_SECONDS)

    async def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Any:
        """Run a script once. The server may have forgotten it at any time: then it is sent whole.

        With `whole` it is sent so at once: of several calls under way none can then overtake another.
        """
        if whole:
            return await self.command("EVAL", script.text, len(keys), *keys, *args)
        wire = self._wire
        if wire is None or wire.closed:
            wire = await self._open()
        reply = await wire.send(hiredis.pack_command(("EVALSHA", script.sha, len(keys), *keys, *args)))
        if isinstance(reply, hiredis.ReplyError):
            if not str(reply).startswith("NOSCRIPT"):
                raise explain(reply)
            return await self.command("EVAL", script.text, len(keys), *keys, *args)
        return reply

    async def command(self, *command: Any) -> Any:
        (reply,) = await self.commands([command])
        return reply

    async def commands(self, commands: Iterable[Command]) -> list[Any]:
        """Several commands in one trip, in order. The first refusal is raised."""
        wire = self._wire
        if wire is None or wire.closed:
            wire = await self._open()
        answers = [wire.send(hiredis.pack_command(command)) for command in commands]
        replies = [await answer for answer in answers]
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise explain(reply)
        return replies

    async def _open(self) -> Wire:
        """Open a connection. Whoever needs it meanwhile waits for the same opening, and hears its failure too."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._reach())
            self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
        return await asyncio.shield(self._opening)

    async def _reach(self) -> Wire:
        # Kept here, not when the task is done: a caller in between would open another, and this one would be lost.
        self._wire = await self._door.open(self._answer_seconds)
        return self._wire


AWAY = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF")
CLOSED_TO_US = ("NOAUTH", "WRONGPASS", "NOPERM")


def explain(error: Exception) -> Exception:
    """What the server's word means for us."""
    text = str(error)
    if text.startswith(AWAY):
        return NoStore(f"the store does not serve now: {text}")
    if text.startswith(CLOSED_TO_US):
        return BadConfiguration(f"the store refuses the credentials of REDIS_URL: {text}")
    if text.startswith("OOM"):
        return StoreFull("the store has no memory left for new work; running jobs go on")
    return ServerRefusal(text)


async def check_fitness(store: Store) -> list[str]:
    """Refuse a server that would lose jobs; return what is allowed but not recommended, as sentences."""
    memory, persistence, replication = [
        info_fields(raw)
        for raw in await store.commands([("INFO", part) for part in ("memory", "persistence", "replication")])
    ]
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnfitStore(f"the store evicts keys ({policy}) and would drop jobs; set `maxmemory-policy noeviction`")
    if replication.get("role") != "master":
        raise UnfitStore("the store is a read-only replica; give the address of its master")
    try:
        await store.command("XAUTOCLAIM", "tailrace-probe", "none", "none", 0, "0")
    except ServerRefusal as error:
        if "unknown command" in str(error).lower():
            raise UnfitStore("the store is older than Redis 7.0 or Valkey 7.2; take a newer one") from None
    advice = []
    if persistence.get("aof_enabled") != "1":
        advice.append("the store keeps no append-only file: jobs are lost when it restarts; set `appendonly yes`")
    return advice


def info_fields(info: bytes) -> dict[str, str]:
    """A section of INFO, by name."""
    lines = (line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}
