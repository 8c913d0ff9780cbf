"""A cluster: one node for each primary, each with a connection of its own, so that a failed one holds up no other.

Every call belongs to one slot. What the cluster says about a slot that moves is handled here: MOVED and ASK are
followed, TRYAGAIN is repeated, and what makes a node useless (CLUSTERDOWN, READONLY, LOADING, a lost link) is raised as
`NoStore` while the map is read again: every call may be repeated, and its caller does.

While a slot moves, a script must not find some of its keys here and others there: it would stop half way. So each call
of a script names one more key, which never exists. A node that has only a part of a slot refuses a call with a missing
key (TRYAGAIN, or ASK when it has nothing left): the platform waits until its slot has moved, and nothing is half done.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import hiredis

from tailrace.streams.errors import BadConfiguration, NoStore
from tailrace.streams.functions import Script
from tailrace.streams.store.addresses import NOT_A_CLUSTER_URL, PORT, as_host, take_apart
from tailrace.streams.store.node import Command, Node, ServerRefusal
from tailrace.streams.store.replication import ReplicaTerms, node_at
from tailrace.streams.store.slots import Address, SlotMap, name_of, slot_of, slot_of_command

MOVING_SECONDS = 2.0  # how long one call follows a slot that moves; then its caller repeats it
AGAIN_SECONDS = 0.02
PROMPT_SECONDS = 0.1  # a node that has owed an answer for longer is asked last, where any node can answer

ASKING = hiredis.pack_command(("ASKING",))
ELSEWHERE = ("MOVED ", "ASK ", "TRYAGAIN")


class Detour:
    """The calls that follow one slot, or wait for those that do."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.calls = 0


class Cluster:
    """A cluster as this process reaches it."""

    def __init__(
        self, url: str, answer_seconds: float, beside: "Cluster | None" = None, terms: ReplicaTerms | None = None
    ) -> None:
        """`beside`: another way of this process to the same cluster; `terms`: answers wait for replicas."""
        addresses = take_apart(url, PORT, NOT_A_CLUSTER_URL)
        if addresses.path.strip("/") not in ("", "0"):
            raise BadConfiguration(f"REDIS_URL {NOT_A_CLUSTER_URL}")

        def url_of(address: Address) -> str:
            return addresses.url(as_host(address[0]), address[1])

        self.map: SlotMap = beside.map if beside else SlotMap(addresses.hosts, url_of)
        self.map.door(addresses.hosts[0])  # a wrong option is refused now
        self._answer_seconds = answer_seconds
        self._terms = terms
        self._owns_map = beside is None
        self._nodes: dict[Address, Node] = {}
        self._detours: dict[int, Detour] = {}  # slots that move: their calls wait for each other

    async def aclose(self) -> None:
        if self._owns_map:
            await self.map.aclose()
        for node in self._nodes.values():
            await node.aclose()

    def leave(self, why: str) -> None:
        for node in self._nodes.values():
            node.leave(why)

    async def nodes(self) -> list[Node]:
        """Every node that has slots. Raises `NoStore` when none has."""
        addresses = await self.map.primaries()
        if not addresses:
            raise NoStore("no node of the cluster has slots; create it with `redis-cli --cluster create`")
        return [self._at(address) for address in addresses]

    async def node_of(self, key: str) -> Node:
        """The node that has a key."""
        return self._at(await self.map.of(slot_of(key)))

    async def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Any:
        if not keys:
            return await self.command("EVAL", script.text, 0, *args)
        slot = slot_of(keys[0])
        words = (len(keys) + 1, *keys, never(keys[0]), *args)
        if not whole:
            reply = await self._call(slot, ("EVALSHA", script.sha, *words))
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            if not str(reply).startswith("NOSCRIPT"):
                raise await self._refused(slot, reply)
        reply = await self._call(slot, ("EVAL", script.text, *words))
        if isinstance(reply, hiredis.ReplyError):
            raise await self._refused(slot, reply)
        return reply

    async def command(self, *command: Any) -> Any:
        (reply,) = await self.commands([command])
        return reply

    async def commands(self, commands: Iterable[Command]) -> list[Any]:
        """Several commands, one trip to each node; those without a key go along with the first that has one."""
        listed = list(commands)
        slots = [slot_of_command(command) for command in listed]
        home = next((slot for slot in slots if slot is not None), None)
        packed = [hiredis.pack_command(command) for command in listed]
        trips: dict[Node, list[int]] = {}
        for place, slot in enumerate(slots):
            of = home if slot is None else slot
            node = await self._anyone() if of is None else self._at(await self.map.of(of))
            trips.setdefault(node, []).append(place)
        replies: list[Any] = [None] * len(listed)

        async def go(node: Node, places: list[int]) -> None:
            for place, reply in zip(places, await self._trip(node, [packed[p] for p in places]), strict=True):
                replies[place] = reply

        if len(trips) == 1:
            await go(*next(iter(trips.items())))
        else:
            await asyncio.gather(*(go(node, places) for node, places in trips.items()))
        for place, reply in enumerate(replies):
            if isinstance(reply, hiredis.ReplyError):
                slot = slots[place]
                if slot is not None and str(reply).startswith(ELSEWHERE):
                    replies[place] = await self._follow(slot, packed[place], reply)
                if isinstance(replies[place], hiredis.ReplyError):
                    raise await self._refused(slot, replies[place])
        return replies

    def _at(self, address: Address) -> Node:
        node = self._nodes.get(address)
        if node is None:
            ways = self.map.ways.get(address)
            node = node_at(name_of(address), self.map.door(address), self._answer_seconds, ways, self._terms)
            self.map.ways[address] = node.ways
            self._nodes[address] = node
        return node

    async def _anyone(self) -> Node:
        """A node that answers, for a command that any node can run."""

        def reluctance(node: Node) -> tuple[bool, float]:
            return not node.is_open or node.silent_seconds > PROMPT_SECONDS, node.silent_seconds

        *others, last = sorted(await self.nodes(), key=reluctance)
        for node in others:
            with suppress(NoStore):
                await node.connect()
                return node
        return last

    async def _call(self, slot: int, command: Command) -> Any:
        if self._detours:
            await self._in_turn(slot)
        packed = hiredis.pack_command(command)
        (reply,) = await self._trip(self._at(await self.map.of(slot)), [packed])
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith(ELSEWHERE):
            async with self._queue(slot):
                return await self._follow(slot, packed, reply)
        return reply

    async def _trip(self, node: Node, packed: Sequence[bytes]) -> list[Any]:
        try:
            return await node.trip(packed)
        except NoStore:
            self.map.doubt()
            raise

    async def _in_turn(self, slot: int) -> None:
        """Wait for the scripts that follow a slot which moves: later ones must not overtake them."""
        if slot in self._detours:
            async with self._queue(slot):
                pass

    @asynccontextmanager
    async def _queue(self, slot: int) -> AsyncIterator[None]:
        """One after the other, in the order they came."""
        detour = self._detours.setdefault(slot, Detour())
        detour.calls += 1
        try:
            async with detour.lock:
                yield
        finally:
            detour.calls -= 1
            if not detour.calls:
                del self._detours[slot]

    async def _follow(self, slot: int, packed: bytes, reply: hiredis.ReplyError) -> Any:
        """Follow a slot that moves; the answer of the node that has it. Raises `NoStore` when that takes too long."""
        clock = asyncio.get_running_loop().time
        patience = clock() + MOVING_SECONDS
        while clock() < patience:
            said = str(reply)
            if said.startswith("ASK "):
                _, reply = await self._trip(self._at(address_in(said)), [ASKING, packed])
            else:
                if said.startswith("MOVED "):
                    self.map.moved(slot, address_in(said))
                else:
                    await asyncio.sleep(AGAIN_SECONDS)
                (reply,) = await self._trip(self._at(await self.map.of(slot)), [packed])
            if not isinstance(reply, hiredis.ReplyError) or not str(reply).startswith(ELSEWHERE):
                return reply
        raise NoStore(f"slot {slot} of the cluster is being moved: {reply}")

    async def _refused(self, slot: int | None, reply: hiredis.ReplyError) -> Exception:
        if str(reply).startswith("CROSSSLOT"):  # said to a plain URL it means that the URL is wrong, here it is a bug
            return ServerRefusal(str(reply))
        node = await self._anyone() if slot is None else self._at(await self.map.of(slot))
        error = node.refused(reply)
        if isinstance(error, NoStore):
            self.map.doubt()
        return error


def never(key: str | bytes) -> str:
    """A key beside this one that never exists."""
    name = key if isinstance(key, str) else key.decode()
    return f"{name[: name.index('}') + 1]}-"


def address_in(said: str) -> Address:
    """The address in MOVED and ASK: `MOVED 1234 127.0.0.1:7001`."""
    host, _, port = said.split()[2].rpartition(":")
    return host, int(port)
