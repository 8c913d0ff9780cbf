"""What operators do to a cluster, and see of it: a slot that moves step by step, primaries and their replicas."""

from collections.abc import Sequence

import redis

from tailrace.ops.up.own_cluster import OwnCluster
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.slots import slot_of


class SlotMove:
    """One slot on its way from one primary to another."""

    def __init__(self, cluster: OwnCluster, platform_key: str) -> None:
        self.cluster = cluster
        self.slot = slot_of(platform_key)
        self.source = owner_of(cluster, self.slot)
        self.target = next(node for node in primaries(cluster) if node is not self.source)

    def begin(self) -> None:
        self._set(self.target, "IMPORTING", self.cluster.id_of(self.source))
        self._set(self.source, "MIGRATING", self.cluster.id_of(self.target))

    def move(self, most: int = 10_000) -> int:
        """Move some keys; how many there were."""
        keys = self.cluster.ask(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, most)
        assert isinstance(keys, list)
        if keys:
            self.move_keys(*keys)
        return len(keys)

    def move_keys(self, *keys: str) -> None:
        where = ("127.0.0.1", self.target.port, "", 0, 5000)
        self.cluster.ask(self.source, "MIGRATE", *where, "AUTH", self.cluster.password, "KEYS", *keys)

    def end(self) -> None:
        while self.move():
            pass
        there = self.cluster.id_of(self.target)
        for node in (self.target, self.source, *primaries(self.cluster)):
            self._set(node, "NODE", there)

    def _set(self, node: OwnStore, *words: str) -> None:
        self.cluster.ask(node, "CLUSTER", "SETSLOT", self.slot, *words)


def primaries(cluster: OwnCluster) -> Sequence[OwnStore]:
    return [node for node in cluster.nodes if node.is_alive() and "master" in cluster.line_of(node)[2]]


def has_replica(server: OwnStore, password: str | None = None) -> bool:
    """Whether a replica follows this server."""
    with redis.Redis(port=server.port or 0, password=password) as client:
        return bool(dict(client.info("replication")).get("slave0", {}).get("state") == "online")


def owner_of(cluster: OwnCluster, slot: int) -> OwnStore:
    """The primary that has a slot."""
    for node in primaries(cluster):
        for words in cluster.line_of(node)[8:]:
            first, _, last = words.partition("-")
            if not words.startswith("[") and int(first) <= slot <= int(last or first):
                return node
    raise AssertionError(f"slot {slot} is not served")
