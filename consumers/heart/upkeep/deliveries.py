"""Delivers what outboxes have held for a while: the consumer that wrote it delivers at once, unless it has died."""

import random
from collections.abc import Sequence
from contextlib import suppress

import anyio

from tailrace.streams.errors import StoreError
from tailrace.streams.flows.relay import Relay
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import get_logger
from tailrace.streams.replies import read_feed_ends, which
from tailrace.streams.transitions import Transitions

log = get_logger()

LOOK_SECONDS = 1.0


class Deliverer:
    """Delivers outboxes for one heart: each look delivers the entries that the look before saw."""

    def __init__(self, transitions: Transitions, platforms: Sequence[PlatformKeys]) -> None:
        self._relay = Relay(transitions)
        self._store = transitions.store
        self._platforms = {keys.platform: keys for keys in platforms}
        self._seen: dict[str, str] = {}  # platform -> the last entry of its outbox, as the look before saw it

    async def run(self) -> None:
        while True:
            with suppress(StoreError):
                await self.round()
            await anyio.sleep(LOOK_SECONDS * random.uniform(0.75, 1.25))  # several hearts look at the same outboxes

    async def round(self) -> None:
        there = await which(self._store, self._platforms.values(), ("outbox",))
        for platform in there & self._seen.keys():
            try:
                await self._relay.deliver(self._platforms[platform], self._seen[platform])
            except BrokenOperation as error:  # corrupt keys must not hold up the others
                log.error("delivery_broken", platform=platform, error=str(error))
        outboxes = {self._platforms[platform]["outbox"]: platform for platform in there}
        ends = await read_feed_ends(self._store, outboxes)
        self._seen = {platform: ends[outbox].cursor for outbox, platform in outboxes.items()}
