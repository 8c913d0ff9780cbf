"""The store: the way to its server or servers, and the names of what is kept there."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tailrace.streams.functions import Script
from tailrace.streams.keys import Keyspace, PlatformKeys
from tailrace.streams.policies import Policy
from tailrace.streams.store.addresses import CLUSTER_SCHEMES, SENTINEL_SCHEMES
from tailrace.streams.store.cluster import Cluster
from tailrace.streams.store.node import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Command,
    Node,
    ServerRefusal,
    check_role,
    info_fields,
)
from tailrace.streams.store.replication import ReplicaTerms, node_at
from tailrace.streams.store.sentinel import SentinelDoor
from tailrace.streams.store.slots import slot_of
from tailrace.streams.store.wire import Door

__all__ = ["ANSWER_SECONDS", "Command", "ServerRefusal", "Store", "check_role", "info_fields"]

ALONE = Keyspace()
ONE_REPLICA = ReplicaTerms()
NO_POLICIES: Mapping[str, Policy] = {}


class Store:
    """The store of one application as this process reaches it. Short commands share a connection."""

    def __init__(
        self,
        url: str,
        keyspace: Keyspace = ALONE,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        beside: "Store | None" = None,
        policies: Mapping[str, Policy] = NO_POLICIES,
        terms: ReplicaTerms = ONE_REPLICA,
    ) -> None:
        """`beside`: another way of this process to the same store.

        `policies` may change: they say on which platforms answers wait for replicas, `terms` for how many.
        """
        self.url = url
        self.keyspace = keyspace
        self.policies = policies
        self.terms = terms
        self.clustered = url.startswith(CLUSTER_SCHEMES)
        self._answer_seconds = answer_seconds
        self._server: Node | Cluster = self._way(beside._server if beside else None)
        self._replicated: Node | Cluster | None = None

    def _way(self, other: Node | Cluster | None, terms: ReplicaTerms | None = None) -> Node | Cluster:
        """A connection to the server or servers, beside another one if there is one."""
        if self.clustered:
            return Cluster(self.url, self._answer_seconds, other if isinstance(other, Cluster) else None, terms)
        door, ways = door_of(self.url), other.ways if isinstance(other, Node) else None
        return node_at(name_in(self.url), door, self._answer_seconds, ways, terms)

    def keys(self, platform: str) -> PlatformKeys:
        """The keys of a platform in this store."""
        return self.keyspace.platform(platform)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._replicated:
            await self._replicated.aclose()
        await self._server.aclose()

    def blocking(self, block_seconds: float) -> "Store":
        """A connection of its own to the same store, for one reader that waits up to `block_seconds` on the server."""
        return Store(self.url, self.keyspace, answer_seconds=block_seconds + ANSWER_SECONDS, beside=self)

    def groups(self, keys: Sequence[str]) -> list[list[str]]:
        """Keys in groups that one command may name: all of them, or on a cluster those of each slot.

        A group also fails as one: its server answers, or it does not.
        """
        if not self.clustered:
            return [list(keys)]
        groups: dict[int, list[str]] = {}
        for key in keys:
            groups.setdefault(slot_of(key), []).append(key)
        return list(groups.values())

    def apart(self, platforms: Iterable[str]) -> list[list[str]]:
        """Platforms in groups of which one may fail while the others work."""
        of_key = {self.keys(platform).prefix: platform for platform in platforms}
        return [[of_key[key] for key in group] for group in self.groups(list(of_key))]

    async def nodes(self) -> list[Node]:
        """The server, or on a cluster every node that has slots."""
        return await self._server.nodes()

    async def node_of(self, platform: str) -> Node:
        """The server that has a platform."""
        return await self._server.node_of(self.keys(platform).prefix)

    def uncovered(self) -> list[str]:
        """The slots of a cluster that no node has, as ranges."""
        return self._server.map.uncovered() if isinstance(self._server, Cluster) else []

    def replicated(self, platform: str) -> bool:
        """Whether answers of a platform wait for replicas."""
        policy = self.policies.get(platform)
        by_policy = policy.durability == "replicated" if policy else platform in self.terms.also
        return by_policy or self.terms.everywhere

    def run(
        self,
        script: Script,
        keys: Sequence[str | bytes],
        args: Sequence[Any],
        *,
        whole: bool = False,
        replicated: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        """Run a script once. The server may have forgotten it at any time: then it is sent whole.

        With `whole` it is sent so at once: of several calls under way none can then overtake another. With `replicated`
        the answer waits for replicas; `NotReplicated` if that takes too long.
        """
        if not replicated:
            return self._server.run(script, keys, args, whole=whole)
        if self._replicated is None:
            self._replicated = self._way(self._server, self.terms)
        return self._replicated.run(script, keys, args, whole=whole)

    def command(self, *command: Any) -> Coroutine[Any, Any, Any]:
        return self._server.command(*command)

    def commands(self, commands: Iterable[Command]) -> Coroutine[Any, Any, list[Any]]:
        """Several commands in one trip, in order. The first refusal is raised."""
        return self._server.commands(commands)


def name_in(url: str) -> str:
    """The address of a server, without the password."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]


def door_of(url: str) -> Door | SentinelDoor:
    return (SentinelDoor if url.startswith(SENTINEL_SCHEMES) else Door)(url, CONNECT_SECONDS)
