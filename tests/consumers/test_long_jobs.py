"""Jobs that run longer than the deadline, also with a blocked loop: their worker lives, so nobody takes them over."""

import asyncio

import pytest

from tests.support.builders import tell
from tests.support.deployment import PACE, Deployment
from tests.support.processes import Pace

WORKED_ONCE = ["queued", "started 1", "progress 1 step 1", "completed 1"]


async def test_a_job_of_five_deadlines_is_one_attempt_however_it_holds_the_loop(deployment: Deployment) -> None:
    """Four jobs, four workers: each one's heart beats for its own and observes three others."""
    await deployment.consumers(4, "research", TAILRACE_CONCURRENCY="1")
    ways = ("none", "sleep", "spin", "regex")
    jobs = [await deployment.submit("research", steps=1, seconds=5 * PACE.deadline, block=way) for way in ways]
    starts = await asyncio.gather(*map(deployment.started, jobs))
    assert len({event.workerId for event in starts}) == len(ways)
    for history in (await deployment.all_ended(jobs)).values():
        assert [tell(event) for event in history] == WORKED_ONCE


@pytest.mark.chaos
async def test_a_job_of_ten_seconds_under_a_deadline_of_five_is_one_attempt(deployment: Deployment) -> None:
    await deployment.consumers(2, "kurly", pace=Pace(deadline=5.0, beat=1.0, reap=1.0))
    job = await deployment.submit("kurly", steps=1, seconds=10.0)
    assert [tell(event) for event in await deployment.ended(job)] == WORKED_ONCE
