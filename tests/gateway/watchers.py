"""Watchers of a job inside a gateway: an idle one, and the wait until the last has left."""

from tailrace.gateway.live.live import Live
from tests.support.eventually import eventually


async def empty(live: Live) -> None:
    """A departure is noticed when the connection's end has come through."""

    async def look() -> bool:
        return live.count == 0

    await eventually("no client watches", look)


class Idle:
    """A watcher that holds a channel and takes nothing from it."""

    def wake(self) -> None:
        pass
