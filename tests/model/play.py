"""The store of a play: scripts and fold may be exchanged for broken ones, and plain code may wait for its answers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from gateway.fold import Head, visible
from streams.connection import Store
from streams.functions import Function, Script, build, functions

Answer = TypeVar("Answer")
Show = Callable[[str, Iterable[bytes]], list[tuple[Head, bytes]]]


class Play(Store):
    """One server, on which one play after the other is given."""

    def __init__(self, url: str, changed: dict[str, Function] | None = None, show: Show = visible) -> None:
        super().__init__(url)
        self.show = show
        self._sources = {**functions(), **changed} if changed else None
        self._broken: dict[tuple[str, ...], Script] = {}
        self._loop = asyncio.new_event_loop()  # not a Runner: that minds signals, at twice the price of a call

    async def run(
        self, script: Script, keys: Sequence[str | bytes], args: Sequence[Any], *, whole: bool = False
    ) -> Any:
        if self._sources:
            names = tuple(script.functions)
            if names not in self._broken:
                self._broken[names] = build(names, sources=self._sources)
            script = self._broken[names]
        return await super().run(script, keys, args, whole=whole)

    def wait(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        self.wait(self.aclose())
        self._loop.close()
