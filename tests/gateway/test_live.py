"""live: who comes while others watch sees what is in the store now."""

import pytest

from tailrace.gateway.live.live import Live
from tailrace.streams.errors import JobNotFound
from tailrace.streams.messages import Hint
from tests.gateway.histories import forged
from tests.gateway.watchers import Idle
from tests.support.builders import Desk


async def test_an_ended_job_that_is_gone_is_not_shown_to_who_comes_later(live: Live, desk: Desk) -> None:
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


async def test_what_does_not_fit_is_compared_with_the_log_before_an_end_is_believed(live: Live, desk: Desk) -> None:
    held = await desk.start("a")
    async with live.watch(desk.keys, "a", Idle()) as channel:
        live.hear("research", [Hint("a", 3, forged("a", 3, 1, "progress", 77))])
        assert len(channel.frames) == 3
        await desk.report(held, 1)
        await desk.complete(held)
        truth = await desk.log("a")
        live.hear("research", [Hint("a", 3, truth[2]), Hint("a", 4, truth[3])])  # as one read of the feed brings them
        assert not channel.ended
        await live.catch_up(channel)
        assert channel.ended
        assert channel.generation == 1
