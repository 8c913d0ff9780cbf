"""A committer that runs for a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tailrace.streams.operations import Operation
from tailrace.streams.store.commit import Claimer, Committer
from tests.support.builders import Desk


class Asked(Committer):
    """Answers by futures."""

    def ask(self, operation: Operation) -> asyncio.Future[Any]:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.say(operation, answered.set_result)
        return answered


@asynccontextmanager
async def committing(desk: Desk, claim: Claimer = lambda settles: None) -> AsyncIterator[Asked]:
    committer = Asked(desk.transitions, desk.keys)
    running = asyncio.create_task(committer.run(claim))
    try:
        yield committer
    finally:
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled(), running.exception()
