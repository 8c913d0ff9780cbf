"""Lanes at run time: which platforms share slots in a process changes without a restart."""

import asyncio

import pytest

from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.policies import Policies
from tailrace.streams.states import Status
from tailrace.streams.transitions import Transitions
from tests.support.deployment import Deployment

PROMISED_SECONDS = 2.0
PLATFORMS = ("plan-generation", "material-processing")


@pytest.mark.chaos
async def test_platforms_join_a_lane_and_leave_it_without_a_restart(deployment: Deployment) -> None:
    """While they are in one lane, one job of either runs at a time in the one process that serves both."""
    policies = Policies(Transitions(deployment.store), BUILT_IN.declare(()))
    await deployment.consumer(*PLATFORMS)
    for lane, together in ((None, 2), ("heavy", 1), (None, 2)):
        for platform in PLATFORMS:
            await policies.change(platform, {"lane": lane, "max_running_per_process": 1})
        await asyncio.sleep(PROMISED_SECONDS)
        jobs = [await deployment.submit(platform, steps=1, seconds=0.5) for platform in PLATFORMS * 2]
        histories = await deployment.all_ended(jobs)
        changes = sorted(
            (event.time, 1 if event.status is Status.STARTED else -1)
            for events in histories.values()
            for event in events
            if event.status
            in (Status.STARTED, Status.PROGRESS)  # the end of a job may be written beside the next start
        )
        running = [sum(change for _, change in changes[: number + 1]) for number in range(len(changes))]
        assert max(running) == together, lane
