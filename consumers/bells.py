"""Listens for calls of the store to this consumer: each platform has a bell, and a few links listen to all of them.

The store calls one idle consumer for each job that comes into the queue, by its own bell: a list that is
emptied by hearing it. Listening owns nothing. After a link was lost, every bell on it counts as rung.
"""

import asyncio
from collections.abc import Callable, Mapping

import anyio

from tailrace.streams.errors import StoreError
from tailrace.streams.replies import hear_bell, reach_bells
from tailrace.streams.store.commit import FIRST_PAUSE, LONGEST_PAUSE
from tailrace.streams.store.connection import Store

LINKS = 16  # a process may serve thousands of platforms, and has few open files; on a cluster for each slot
LISTEN_SECONDS = 5  # in one wait: a dead link goes unnoticed for a little longer than that

Ring = Callable[[], None]


class Bells:
    """The bells of one consumer."""

    def __init__(self, store: Store, bells: Mapping[str, Ring]) -> None:
        """`bells`: the key of each bell, and the function to call when it rings."""
        self._store = store
        self._bells = bells

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for names in self._store.groups(list(self._bells)):
                for first in range(min(LINKS, len(names))):
                    tasks.start_soon(self._listen, names[first::LINKS])

    async def _listen(self, names: list[str]) -> None:
        pause, deaf = 0.0, False
        async with self._store.blocking(LISTEN_SECONDS) as ears:
            while True:
                try:
                    if deaf:
                        await reach_bells(ears, names)
                        for name in names:
                            self._bells[name]()
                        deaf = False
                    heard = await hear_bell(ears, names, LISTEN_SECONDS)
                    pause = 0.0
                except StoreError:
                    deaf = True
                    pause = min(max(FIRST_PAUSE, pause * 2), LONGEST_PAUSE)
                    await asyncio.sleep(pause)
                    continue
                if heard:
                    self._bells[heard]()
                    await asyncio.sleep(0)  # the claim goes out before this link listens again
                    if len(names) > 1:  # the first that has rung is heard: the others must not wait forever
                        names.remove(heard)
                        names.append(heard)
