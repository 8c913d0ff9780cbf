"""A running job whose worker is the test: its steps come when the test says so, however long all else takes."""

import asyncio

from tailrace.streams.history.events import event_body
from tailrace.streams.keys import join_id
from tailrace.streams.messages import Claim
from tailrace.streams.states import Status
from tests.support.builders import Desk

WORKER = "by-hand"
BEAT_SECONDS = 0.2


class JobByHand:
    """One job with this many steps, claimed by a worker that beats."""

    def __init__(self, desk: Desk, held: Claim, steps: int) -> None:
        self.id = join_id(desk.keys.platform, held.key)
        self.steps = steps
        self._desk = desk
        self._held = held

    async def shows(self, first: int, last: int) -> None:
        """Report these steps, one after the other."""
        desk, held = self._desk, self._held
        for step in range(first, last + 1):
            event = event_body(held.number, Status.PROGRESS, WORKER, step, of=self.steps)
            await desk.transitions.report(desk.keys, held.key, held.nonce, step, event)

    async def completes(self) -> None:
        await self._desk.complete(self._held)

    async def beats(self) -> None:
        """Without an end: who asks which workers live need not wait to be sure that this one does not."""
        while True:
            await self._desk.beat(WORKER, [self._held])
            await asyncio.sleep(BEAT_SECONDS)
