"""Answers that wait for replicas: the calls of one moment are followed by one WAIT.

WAIT is for what its own connection has written, and holds that connection up until the replicas have it. So calls that
wait have a connection of their own, and those that come meanwhile share the next WAIT. A call that was carried out
before, on another connection, writes something all the same (see `again` in the scripts): else WAIT would not wait.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import hiredis
from msgspec import Struct

from tailrace.streams.errors import NotReplicated, StoreError
from tailrace.streams.functions import Script
from tailrace.streams.store.node import Command, Entrance, Node

PROMISES = frozenset(
    {"submit", "claim", "report", "complete", "fail", "delay", "requeue", "wait", "release"}
    | {"save", "checkpoint", "spawn", "arrive", "signal", "cancel", "reopen"}
)
"""The transitions whose answers wait: those that clients and attempts build on. Beats and looks promise nothing."""


class ReplicaTerms(Struct, frozen=True):
    """How many replicas must confirm, and on which platforms."""

    replicas: int = 1  # how many must have a write before it is answered
    wait_ms: int = 1000  # how long an answer waits for them
    everywhere: bool = False  # on every platform, whatever its policy says
    also: frozenset[str] = frozenset()  # on these, of which this process has no policy

    def unmet(self, confirmed: int) -> str:
        """The error when too few replicas have confirmed."""
        return (
            f"it is stored, but {confirmed} of {self.replicas} replicas confirmed it within {self.wait_ms} ms, "
            "and a failover may lose it; repeat it under the same key"
        )


Waiting = tuple[Sequence[bytes], "asyncio.Future[list[Any]]"]


class ReplicatedNode(Node):
    """A server whose answers wait for its replicas."""

    def __init__(
        self, name: str, door: Entrance, answer_seconds: float, ways: "WeakSet[Node] | None", terms: ReplicaTerms
    ) -> None:
        super().__init__(name, door, answer_seconds + terms.wait_ms / 1000, ways)
        self._terms = terms
        wait: Command = ("WAIT", terms.replicas, terms.wait_ms)
        self._wait = hiredis.pack_command(wait)
        self._gathered: list[Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        if self._sending and not self._sending.done():
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await super().aclose()

    async def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Any:
        if not whole:
            words = ("EVALSHA", script.sha, len(keys), *keys, *args)
            (reply,) = await self.trip([hiredis.pack_command(words)])
            if not isinstance(reply, hiredis.ReplyError):
                return reply
            if not str(reply).startswith("NOSCRIPT"):
                raise self.refused(reply)
        return await self.command("EVAL", script.text, len(keys), *keys, *args)

    async def trip(self, packed: Sequence[bytes]) -> list[Any]:
        """Raises `NotReplicated` when the commands were carried out and too few replicas have that in time."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._gathered.append((packed, answer))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        while self._gathered:
            calls, self._gathered = self._gathered, []
            try:
                replies = await super().trip([*(each for packed, _ in calls for each in packed), self._wait])
                self._answer(calls, iter(replies), replies[-1])
            except StoreError as error:
                for _, answer in calls:
                    refuse(answer, error)
            except BaseException as error:  # this way is closed
                for _, answer in calls:
                    refuse(answer, StoreError(str(error)))
                raise

    def _answer(self, calls: Sequence[Waiting], replies: Any, confirmed: Any) -> None:
        if isinstance(confirmed, hiredis.ReplyError):
            confirmed = self.refused(confirmed)
        elif confirmed < self._terms.replicas:
            confirmed = NotReplicated(self._terms.unmet(confirmed))
        for packed, answer in calls:
            found = [next(replies) for _ in packed]
            if isinstance(confirmed, StoreError) and not any(isinstance(each, hiredis.ReplyError) for each in found):
                refuse(answer, confirmed)
            elif not answer.done():
                answer.set_result(found)


def refuse(answer: "asyncio.Future[Any]", error: StoreError) -> None:
    """An error of its own for each call: its caller adds to it."""
    if not answer.done():
        answer.set_exception(type(error)(*error.args))


def node_at(
    name: str, door: Entrance, answer_seconds: float, ways: "WeakSet[Node] | None", terms: ReplicaTerms | None
) -> Node:
    """A way to a server; with `terms` its answers wait for replicas."""
    return ReplicatedNode(name, door, answer_seconds, ways, terms) if terms else Node(name, door, answer_seconds, ways)
