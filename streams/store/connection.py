"""The store: the way to its server, and the names of what is kept there."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Self

from tailrace.streams.functions import Script
from tailrace.streams.keys import Keyspace, PlatformKeys
from tailrace.streams.store.addresses import SENTINEL_SCHEMES
from tailrace.streams.store.node import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Command,
    Node,
    ServerRefusal,
    check_role,
    info_fields,
)
from tailrace.streams.store.sentinel import SentinelDoor
from tailrace.streams.store.wire import Door

__all__ = ["ANSWER_SECONDS", "Command", "ServerRefusal", "Store", "check_role", "info_fields"]

ALONE = Keyspace()


class Store:
    """The store of one application as this process reaches it. Short commands share a connection."""

    def __init__(
        self,
        url: str,
        keyspace: Keyspace = ALONE,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        beside: "Store | None" = None,
    ) -> None:
        """`beside`: another way of this process to the same store."""
        self.url = url
        self.keyspace = keyspace
        self._server: Node = Node(door_of(url), answer_seconds, beside._server.ways if beside else None)

    def keys(self, platform: str) -> PlatformKeys:
        """The keys of a platform in this store."""
        return self.keyspace.platform(platform)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._server.aclose()

    def blocking(self, block_seconds: float) -> "Store":
        """Another way to the same store, for one reader that waits up to `block_seconds` on the server."""
        return Store(self.url, self.keyspace, answer_seconds=block_seconds + ANSWER_SECONDS, beside=self)

    def leave_server(self, why: str) -> None:
        """Close every connection to this server: it is the wrong one now. The next call connects again by name."""
        self._server.leave(why)

    def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Run a script once. The server may have forgotten it at any time: then it is sent whole.

        With `whole` it is sent so at once: of several calls under way none can then overtake another.
        """
        return self._server.run(script, keys, args, whole=whole)

    def command(self, *command: Any) -> Coroutine[Any, Any, Any]:
        return self._server.command(*command)

    def commands(self, commands: Iterable[Command]) -> Coroutine[Any, Any, list[Any]]:
        """Several commands in one trip, in order. The first refusal is raised."""
        return self._server.commands(commands)


def door_of(url: str) -> Door | SentinelDoor:
    return (SentinelDoor if url.startswith(SENTINEL_SCHEMES) else Door)(url, CONNECT_SECONDS)
