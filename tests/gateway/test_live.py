"""live: who comes while others watch sees what is in the store now."""

import asyncio
from contextlib import suppress

import pytest

from gateway.live import Live
from streams.errors import JobNotFound
from tests.support.builders import Desk


class Idle:
    """A watcher that holds a channel and takes nothing from it."""

    def wake(self) -> None:
        pass


async def test_an_ended_job_that_is_gone_is_not_shown_to_who_comes_later(desk: Desk) -> None:
    live = Live(desk.store)
    running = asyncio.create_task(live.run())
    try:
        await desk.submit("a")
        await desk.cancel("a")
        async with live.watch(desk.keys, "a", Idle()) as held:
            assert [b'"cancelled"' in frame for frame in held.frames][-1]
            assert await desk.transitions.drop(desk.keys, "a") == "ok"
            with pytest.raises(JobNotFound):
                async with live.watch(desk.keys, "a", Idle()):
                    pass
            await desk.submit("a")
            async with live.watch(desk.keys, "a", Idle()) as anew:
                assert anew is held
                assert len(anew.frames) == 1
                assert b'"queued"' in anew.frames[0]
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
