"""Which node of a cluster has which slot, as far as this process knows; and to which slot a command belongs."""

import asyncio
import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any
from weakref import WeakSet

import hiredis

from tailrace.streams.errors import NoStore, StoreError, UnfitStore
from tailrace.streams.store.node import CONNECT_SECONDS, Node, explain
from tailrace.streams.store.wire import Door

Address = tuple[str, int]

SLOTS = 16384
LEARN_SECONDS = 0.2  # between two questions for the map, however many calls fail

KEY_AT = {  # where the first key stands; all keys of one command are in one slot
    "EVAL": 3,
    "EVALSHA": 3,
    "XINFO": 2,
    "XGROUP": 2,
    "ZINTERCARD": 2,
    "OBJECT": 2,
}
WITHOUT_KEY = frozenset({"PING", "TIME", "INFO", "DBSIZE", "SCAN", "ACL", "CONFIG", "SCRIPT", "COMMAND", "CLIENT"})
CLUSTER_SLOTS = hiredis.pack_command(("CLUSTER", "SLOTS"))  # type: ignore[arg-type]


class SlotMap:
    """The slots of a cluster; all connections of a process share one map."""

    def __init__(self, seeds: Sequence[Address], url_of: Callable[[Address], str]) -> None:
        self._seeds = seeds
        self._url_of = url_of
        self._of_slot: list[Address | None] = [None] * SLOTS
        self._learning: asyncio.Task[None] | None = None
        self._learnt = -LEARN_SECONDS
        self.ways: dict[Address, WeakSet[Node]] = {}

    def door(self, address: Address) -> Door:
        return Door(self._url_of(address), CONNECT_SECONDS)

    async def of(self, slot: int) -> Address:
        """The node that has a slot. Raises `NoStore` when no node has it."""
        address = self._of_slot[slot]
        if address is None:
            await self.learn()
            address = self._of_slot[slot]
        if address is None:
            raise NoStore(f"no node of the cluster serves slot {slot}; look at CLUSTER SLOTS")
        return address

    async def primaries(self) -> list[Address]:
        """Every node that has slots, as they are numbered."""
        if not any(self._of_slot):
            await self.learn()
        return list(dict.fromkeys(address for address in self._of_slot if address))

    def uncovered(self) -> list[str]:
        """The slots that no node has, as ranges."""
        missing = [slot for slot, address in enumerate(self._of_slot) if address is None]
        runs = [[slot for _, slot in run] for _, run in groupby(enumerate(missing), lambda each: each[1] - each[0])]
        return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]

    def moved(self, slot: int, address: Address) -> None:
        """A node says that another has the slot now."""
        self._of_slot[slot] = address
        self.doubt()

    def doubt(self) -> None:
        """Read the map again in the background: repeated calls use the new one."""
        self._start()

    async def learn(self) -> None:
        """Read the map. Raises `StoreError` when no node answers."""
        await asyncio.shield(self._start())

    def _start(self) -> "asyncio.Task[None]":
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn())
            self._learning.add_done_callback(lambda learning: learning.cancelled() or learning.exception())
        return self._learning

    async def _learn(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._learnt + LEARN_SECONDS - loop.time())
        self._learnt = loop.time()
        known = list(dict.fromkeys([*(address for address in self._of_slot if address), *self._seeds]))
        asking = [asyncio.create_task(self._ask(address)) for address in known]
        errors: list[Exception] = []
        try:
            for answer in asyncio.as_completed(asking, timeout=2 * CONNECT_SECONDS):
                try:
                    self._of_slot = await answer
                    return
                except (StoreError, TimeoutError) as error:
                    errors.append(error)
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        lasting = [error for error in errors if not isinstance(error, NoStore | TimeoutError)]
        if lasting:
            raise lasting[0]
        raise NoStore(f"no node of the cluster answers: {next(filter(None, map(str, errors)), 'none in time')}")

    async def _ask(self, address: Address) -> list[Address | None]:
        wire = await self.door(address).open(CONNECT_SECONDS)
        try:
            reply = await wire.send(CLUSTER_SLOTS)
        finally:
            wire.close()
        if isinstance(reply, hiredis.ReplyError):
            if "cluster support disabled" in str(reply):
                raise UnfitStore(
                    f"the server at {name_of(address)} does not run in cluster mode; "
                    f"write REDIS_URL as redis://{name_of(address)}"
                )
            raise explain(reply)
        return to_slots(reply, address)

    async def aclose(self) -> None:
        if self._learning and not self._learning.done():
            self._learning.cancel()
            await asyncio.wait([self._learning])


def to_slots(reply: Sequence[Sequence[Any]], asked: Address) -> list[Address | None]:
    """The map as CLUSTER SLOTS tells it. A node that does not know its own name is where it was asked."""
    slots: list[Address | None] = [None] * SLOTS
    for first, last, (host, port, *_), *_replicas in reply:
        name = host.decode() if host and host != b"?" else asked[0]
        slots[first : last + 1] = [(name, port)] * (last + 1 - first)
    return slots


def name_of(address: Address) -> str:
    """A node as people read it."""
    return "{}:{}".format(*address)


def slot_of(key: str | bytes) -> int:
    name = key if isinstance(key, str) else key.decode(errors="surrogateescape")
    start = name.find("{")
    end = name.find("}", start + 1)
    return _slot_of_tag(name[start + 1 : end] if 0 <= start < end - 1 else name)


@lru_cache(16384)
def _slot_of_tag(tag: str) -> int:
    return binascii.crc_hqx(tag.encode(errors="surrogateescape"), 0) % SLOTS


def slot_of_command(command: Sequence[Any]) -> int | None:
    """The slot of a command's keys; None: it has none."""
    word = command[0]
    if word in WITHOUT_KEY or len(command) == 1:
        return None
    at = command.index("STREAMS") + 1 if word == "XREAD" else KEY_AT.get(word, 1)
    if word in ("EVAL", "EVALSHA") and not command[2]:
        return None
    return slot_of(command[at])
