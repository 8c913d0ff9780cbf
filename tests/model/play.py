"""The store of a play: scripts and fold may be exchanged for broken ones, and plain code may wait for its answers."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from tailrace.streams.functions import Function, Script, build, functions
from tailrace.streams.history.fold import Head, visible
from tailrace.streams.store.connection import Store

Answer = TypeVar("Answer")
Show = Callable[[str, Iterable[bytes]], list[tuple[Head, bytes]]]


class Play(Store):
    """One server, on which one play after the other is given."""

    def __init__(
        self,
        url: str,
        changed: dict[str, Function] | None = None,
        show: Show = visible,
        shared: tuple[str, str] | None = None,
    ) -> None:
        """`shared`: a piece of the lines that all transitions share, and what stands there instead."""
        super().__init__(url)
        self.show = show
        self._shared = shared
        self.is_broken = False  # whether any script contains the shared piece
        self._sources = {**functions(), **(changed or {})} if changed or shared else None
        self._broken: dict[str, Script] = {}
        self._loop = asyncio.new_event_loop()  # not a Runner: that minds signals, at twice the price of a call

    async def run(
        self,
        script: Script,
        keys: Sequence[str | bytes],
        args: Sequence[Any],
        *,
        whole: bool = False,
        replicated: bool = False,
    ) -> Any:
        if self._sources:
            name = next(iter(script.functions.values())).script
            if name not in self._broken:
                self._broken[name] = self._exchange(build(name, self._sources))
            script = self._broken[name]
        return await super().run(script, keys, args, whole=whole, replicated=replicated)

    def _exchange(self, script: Script) -> Script:
        if not self._shared:
            return script
        right, wrong = self._shared
        if script.text.count(right) > 1:  # not an AssertionError, which would pass for a breach that was caught
            raise LookupError(f"more than one shared line contains {right!r}: this mutant is out of date")
        text = script.text.replace(right, wrong)
        self.is_broken = self.is_broken or text != script.text
        return replace(script, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())

    def wait(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        self.wait(self.aclose())
        self._loop.close()
