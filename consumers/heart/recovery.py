"""Takes the jobs of owners that fell silent away from them, and forgets those that hold nothing.

A role beside the looks, because a dead owner may leave thousands of jobs behind, and a look that came late because
of them would start every other silence again.
"""

import random
import time
from contextlib import suppress
from functools import partial

import anyio

from tailrace.consumers.heart.messages import Instructions
from tailrace.consumers.heart.silences import Silence, Silences
from tailrace.consumers.metrics.counters import HeartCounters
from tailrace.streams.errors import StoreError
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import get_logger
from tailrace.streams.transitions import ENLIST_BATCH, Transitions, share
from tailrace.streams.views.corrupt import of_each

log = get_logger()

ENLIST_SECONDS = 1.5  # between looks for leases that no owner's list names, of one observer
ENLIST_SHARE = 0.15  # the same in seconds for each owner: however many there are, all of them together look as often


class Recovery:
    """Takes over the jobs of owners whose silence one observer has seen."""

    def __init__(
        self,
        instructions: Instructions,
        transitions: Transitions,
        silences: Silences,
        counters: HeartCounters | None = None,
    ) -> None:
        self._policies = instructions.policies
        self._transitions = transitions
        self._keys = transitions.store.keys
        self._silences = silences
        self._reclaimed = (counters or HeartCounters()).reclaimed
        self._look = anyio.Event()

    def looked(self) -> None:
        """Note that there was another look."""
        self._look.set()
        self._look = anyio.Event()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_lists)
            while True:
                look = self._look
                if not await self._turn():
                    await look.wait()

    async def _turn(self) -> bool:
        """Take some jobs from each owner that is lost; whether there may be more."""
        more = False
        try:
            lost = self._silences.lost(time.monotonic())
            random.shuffle(lost)  # several observers see the same owners
            for silence in lost:
                more = await self._take_from(silence) or more
            for silence in self._silences.departed(time.monotonic()):
                await self._bury(silence)
        except StoreError:
            self._silences.blind()
            return False
        return more

    async def _take_from(self, silence: Silence) -> bool:
        keys = self._keys(silence.platform)
        try:
            leases = await self._transitions.holdings(keys, silence.owner)
        except BrokenOperation as error:  # corrupt keys must not hold up the others
            log.error("holdings_broken", platform=keys.platform, owner=silence.owner, error=str(error))
            return False
        if not leases:
            self._silences.know_empty(silence, True)
            return False
        if not self._silences.heed(silence, max(lease.deadline_seconds for lease in leases)):
            return False
        policy = self._policies[keys.platform]
        answers = await self._transitions.reclaim(keys, leases, silence.counter, policy)
        taken = 0
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, BrokenOperation):
                log.error("reclaim_broken", job=keys.id(lease.key), owner=lease.owner, error=str(answer))
            elif answer in {"reclaimed", "failed", "cancelled"}:
                log.warning("lease_lost", job=keys.id(lease.key), owner=lease.owner, outcome=answer)
                taken += 1
        self._reclaimed[keys.platform] = self._reclaimed.get(keys.platform, 0) + taken
        return taken > 0

    async def _bury(self, silence: Silence) -> None:
        try:
            answer = await self._transitions.bury(self._keys(silence.platform), silence.owner, silence.counter)
        except BrokenOperation as error:
            log.error("bury_broken", platform=silence.platform, owner=silence.owner, error=str(error))
        else:
            self._silences.know_empty(silence, answer != "holds")

    async def _keep_lists(self) -> None:
        """Find leases that no list names: their keys were removed by hand, or written by an earlier version."""
        platforms = [self._keys(platform) for platform in self._policies]
        cursors = {platform: random.getrandbits(32) for platform in self._policies}  # others look elsewhere
        enlist = partial(self._transitions.enlist, most=share(ENLIST_BATCH, len(platforms)))
        while True:
            with suppress(StoreError):
                cursors |= await of_each([(keys, cursors[keys.platform]) for keys in platforms], enlist)
            await anyio.sleep(max(ENLIST_SECONDS, ENLIST_SHARE * self._silences.owners))
