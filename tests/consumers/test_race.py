"""The seed's race: a worker frozen in the middle of its job, taken over, and thawed again."""

import asyncio
from random import Random

import pytest

from tailrace.streams.states import Status
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled
from tests.support.processes import ConsumerProcess, asleep

STEPS, STEP_SECONDS = 8, 0.2


LANES = ("research", "plan-generation", "material-processing")


@pytest.mark.parametrize("rounds", [1, pytest.param(scaled(7), marks=[pytest.mark.chaos, pytest.mark.timeout(400)])])
async def test_a_frozen_worker_that_comes_back_is_mute_and_works_again(
    deployment: Deployment, dice: Random, rounds: int
) -> None:
    """Three races side by side, each with two workers of its own; all are watched through two gateways."""
    await asyncio.gather(deployment.gateway(), deployment.gateway())
    async with asyncio.TaskGroup() as races:
        for platform in LANES:
            races.create_task(race_on(deployment, Random(dice.random()), platform, rounds))


async def race_on(deployment: Deployment, dice: Random, platform: str, rounds: int) -> None:
    consumers = await deployment.consumers(2, platform, TAILRACE_CONCURRENCY="1")
    for _ in range(rounds):
        await race(deployment, dice, platform, consumers)


async def race(deployment: Deployment, dice: Random, platform: str, consumers: list[ConsumerProcess]) -> None:
    job = await deployment.submit(platform, steps=STEPS, seconds=STEP_SECONDS)
    clients = [deployment.follow(gateway, job) for gateway in deployment.gateways]
    holder = (await deployment.started(job)).workerId
    old, new = consumers if holder == consumers[0].owner else reversed(consumers)

    await moment(deployment, dice, job, attempt=1)
    old.freeze()
    assert (await deployment.started(job, attempt=2)).workerId == new.owner
    await moment(deployment, dice, job, attempt=2)
    assert (await deployment.record(job)).state == "running", "the new worker is still at it when the old one wakes"
    watch = asyncio.get_running_loop().create_task(holders(deployment, job))
    old.thaw()
    history = await deployment.ended(job)
    assert await watch == {new.owner}, "the entry never goes back"

    done = sum(event.status is Status.PROGRESS and event.attempt == 1 for event in history)
    assert [tell(event) for event in history] == [
        "queued",
        "started 1",
        *(f"progress 1 step {step}" for step in range(1, done + 1)),
        "superseded 1",
        "started 2",
        *(f"progress 2 step {step}" for step in range(1, STEPS + 1)),
        "completed 2",
    ]
    after = history[history.index(next(event for event in history if event.status is Status.SUPERSEDED)) + 1 :]
    assert {event.workerId for event in after} == {new.owner}
    assert await deployment.raw_log(job) == history[1:], "the store holds nothing else"
    assert [await client for client in clients] == [history, history]
    await works_again(deployment, platform, old, new, job)


async def moment(deployment: Deployment, dice: Random, job: str, attempt: int) -> None:
    """Some time in the first two thirds of an attempt."""
    if step := dice.randrange(STEPS * 2 // 3):
        await deployment.reached(job, step, attempt)
    await asyncio.sleep(dice.uniform(0, STEP_SECONDS))


async def holders(deployment: Deployment, job: str) -> set[str]:
    """Everyone under whom the entry pends from now to the job's end."""
    seen = set()
    while holder := await deployment.holder(job):
        seen.add(holder)
    return seen


async def works_again(
    deployment: Deployment, platform: str, old: ConsumerProcess, new: ConsumerProcess, lost: str
) -> None:
    async def learnt() -> bool:
        return any(line["job"] == lost for line in old.said("attempt_lost"))

    await eventually("the old worker knows that it lost its job", learnt)
    with asleep(new):
        job = await deployment.submit(platform, steps=1, seconds=0.01)
        history = await deployment.ended(job)
    assert [tell(event) for event in history] == ["queued", "started 1", "progress 1 step 1", "completed 1"]
    assert history[-1].workerId == old.owner
