"""One server of the store: short commands share a connection, nothing is sent twice.

A command is sent once. When its answer is lost it may or may not have been carried out: the caller knows whether it
may be repeated, because every transition carries what makes it idempotent.

After a failover the name of the store leads to another server while the old one still answers. So a connection is only
used when the server behind it takes writes, and an answer that says otherwise closes every connection of this process
to that server: the next call connects again by name. Callers pause between tries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import hiredis

from tailrace.streams.errors import AccessDenied, NoStore, StoreError, StoreFull, UnfitStore
from tailrace.streams.functions import Script
from tailrace.streams.store.wire import Wire

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0  # a server that does not answer a short command by then is treated as away
GLANCE_SECONDS = 2.0  # a look at several servers waits no longer for one of them

Command = tuple[Any, ...]
T = TypeVar("T")

ROLE: Command = ("INFO", "replication")


class ServerRefusal(StoreError):
    """The server answered with an error that no setting explains: a bug, or a key that another program wrote."""


class Entrance(Protocol):
    """Opens connections to a server: by its address, or by asking sentinels."""

    async def open(self, answer_seconds: float) -> Wire: ...


class Node:
    """One server as this process reaches it."""

    def __init__(self, name: str, door: Entrance, answer_seconds: float, ways: "WeakSet[Node] | None" = None) -> None:
        """`name` is for people; `ways`: the other ways of this process to the same server."""
        self.name = name
        self.ways: WeakSet[Node] = WeakSet() if ways is None else ways
        self.ways.add(self)
        self.door = door
        self._answer_seconds = answer_seconds
        self._wire: Wire | None = None
        self._opening: asyncio.Task[Wire] | None = None
        self._opening_since = 0.0
        self._queued = self._passed = 0  # calls that had to wait for a connection, and those that went on

    async def aclose(self) -> None:
        if self._opening and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._wire:
            self._wire.close()

    def leave(self, why: str) -> None:
        """Close every connection to this server: it is the wrong one now. The next call connects again by name."""
        for way in list(self.ways):
            if way._wire:
                way._wire.close(why)

    async def nodes(self) -> "list[Node]":
        return [self]

    async def node_of(self, _: str) -> "Node":
        return self

    async def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Any:
        """Run a script once. The server may have forgotten it at any time: then it is sent whole.

        With `whole` it is sent so at once: of several calls under way none can then overtake another.
        """
        if whole:
            return await self.command("EVAL", script.text, len(keys), *keys, *args)
        wire = self._wire
        if wire is None or wire.closed or self._passed < self._queued:
            wire = await self._open()
        reply = await wire.send(hiredis.pack_command(("EVALSHA", script.sha, len(keys), *keys, *args)))
        if isinstance(reply, hiredis.ReplyError):
            if not str(reply).startswith("NOSCRIPT"):
                raise self.refused(reply)
            return await self.command("EVAL", script.text, len(keys), *keys, *args)
        return reply

    async def command(self, *command: Any) -> Any:
        (reply,) = await self.commands([command])
        return reply

    async def commands(self, commands: Iterable[Command]) -> list[Any]:
        """Several commands in one trip, in order. The first refusal is raised."""
        replies = await self.trip([hiredis.pack_command(command) for command in commands])
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                raise self.refused(reply)
        return replies

    async def trip(self, packed: Sequence[bytes]) -> list[Any]:
        """Send packed commands; their answers in order, among which a refusal is a `hiredis.ReplyError`."""
        wire = self._wire
        if wire is None or wire.closed or self._passed < self._queued:
            wire = await self._open()
        answers = [wire.send(each) for each in packed]
        return [await answer for answer in answers]

    async def connect(self) -> None:
        """Raises `StoreError` when this server cannot be reached."""
        if not self.is_open:
            await self._open()

    @property
    def is_open(self) -> bool:
        return self._wire is not None and not self._wire.closed

    @property
    def silent_seconds(self) -> float:
        """For how long this server has owed an answer or a connection."""
        if self._wire and not self._wire.closed:
            return self._wire.silent_seconds
        if self._opening and not self._opening.done():
            return asyncio.get_running_loop().time() - self._opening_since
        return 0.0

    async def glance(self, look: Callable[[], Awaitable[T]]) -> T:
        """The result of a read. Raises `NoStore` after a short wait, so that a server that hangs holds nothing up."""
        try:
            if self.silent_seconds < GLANCE_SECONDS:
                async with asyncio.timeout(GLANCE_SECONDS):
                    return await look()
        except TimeoutError:
            pass
        raise NoStore(f"{self.name} has not answered for {self.silent_seconds:.0f} s")

    def refused(self, reply: hiredis.ReplyError) -> Exception:
        """The error for a refusal. If it says that this server is the wrong one, its connections are closed."""
        if str(reply).startswith(OF_A_CLUSTER):
            return clusters_node(self.name)
        error = explain(reply)
        if str(reply).startswith(ELSEWHERE):
            self.leave(str(error))
        return error

    async def _open(self) -> Wire:
        """Open a connection. Callers that need it meanwhile wait for the same opening, and hear its failure too."""
        lost = self._wire is None or self._wire.closed
        if self._opening is None or (lost and self._opening.done()):
            self._opening = asyncio.create_task(self._reach())
            self._opening_since = asyncio.get_running_loop().time()
            self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
        place, self._queued = self._queued, self._queued + 1
        try:
            wire = await asyncio.shield(self._opening)
            # Those before it wake up a moment later, and calls keep their order.
            while self._passed < place:  # noqa: ASYNC110 # a turn of the loop or two: no event is worth it
                await asyncio.sleep(0)
            return wire
        finally:
            self._passed += 1

    async def _reach(self) -> Wire:
        # Kept here, not when the task is done: a caller in between would open another, and this one would be lost.
        self._wire = await self._open_to_primary()
        return self._wire

    async def _open_to_primary(self) -> Wire:
        """A replica answers reads for ever, and would never show what the primary has.

        The question also shows that the connection is in step: its answer is like no other.
        """
        wire = await self.door.open(self._answer_seconds)
        try:
            async with asyncio.timeout(2 * CONNECT_SECONDS):
                reply = await wire.send(hiredis.pack_command(ROLE))
            if isinstance(reply, hiredis.ReplyError):
                raise explain(reply)
            if reply == b"":  # a sentinel keeps nothing that could be replicated
                raise UnfitStore(f"{self.name} is a sentinel; write REDIS_URL as redis+sentinel://{self.name}/NAME")
            if not isinstance(reply, bytes) or b"role:" not in reply:
                raise NoStore("the store answers another question than it was asked")
            check_role(info_fields(reply))
        except TimeoutError:
            wire.close()
            raise NoStore("the store does not answer: it accepts connections and says nothing") from None
        except BaseException:
            wire.close()
            raise
        return wire


# The name of the store may lead to another server by now, or this one has forgotten who we are: connect again.
# NOREPLICAS is what a primary says that was cut off from the others, and may have been replaced by one of them.
ELSEWHERE = ("READONLY", "MASTERDOWN", "LOADING", "UNBLOCKED", "CLUSTERDOWN", "NOREPLICAS", "NOAUTH", "WRONGPASS")
WAIT = ("BUSY", "MISCONF", "TRYAGAIN")  # this server is the right one and cannot serve now
CLOSED_TO_US = ("NOAUTH", "WRONGPASS")
OF_A_CLUSTER = ("MOVED ", "ASK ", "CROSSSLOT")  # `Cluster` follows the first two, and never names two slots


def explain(error: Exception) -> Exception:
    """The error for an answer of the server."""
    text = str(error)
    if text.startswith(CLOSED_TO_US):
        return AccessDenied(f"the store refuses the credentials of REDIS_URL: {text}")
    if text.startswith("NOPERM"):
        return AccessDenied(f"the store does not let the user of REDIS_URL do that; allow it with ACL SETUSER: {text}")
    if text.startswith((*ELSEWHERE, *WAIT)):
        return NoStore(f"the store does not serve now: {text}")
    if text.startswith("OOM"):
        return StoreFull("the store has no memory left for new work; running jobs go on")
    return ServerRefusal(text)


def clusters_node(name: str) -> UnfitStore:
    """A plain address leads to one node of a cluster."""
    return UnfitStore(f"the store runs in cluster mode; write REDIS_URL as redis+cluster://{name}")


def check_role(replication: dict[str, str]) -> None:
    if replication.get("role") != "master":
        raise NoStore("the store is a read-only replica now; REDIS_URL must lead to its primary")


def info_fields(info: bytes) -> dict[str, str]:
    """A section of INFO, by name."""
    lines = (line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}
