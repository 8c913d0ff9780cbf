"""SIGTERM: a worker finishes or hands back, and leaves no trace."""

import asyncio

from tailrace.streams.states import Status
from tests.support.builders import tell
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.faults import Link
from tests.support.processes import ConsumerProcess, Pace


async def left_without_a_trace(deployment: Deployment, consumer: ConsumerProcess) -> bool:
    return (
        await consumer.ended() == 0
        and consumer.owner not in await deployment.beats("kurly")
        and consumer.owner not in await deployment.group_consumers("kurly")
        and consumer.owner not in {lease.owner for lease in await deployment.leases("kurly")}
    )


async def test_a_drained_worker_finishes_its_job_takes_no_other_and_leaves(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly")
    running = await deployment.submit("kurly", steps=5, seconds=0.1)
    waiting = await deployment.submit("kurly", steps=1, seconds=0)
    await deployment.reached(running, 1)
    consumer.interrupt()
    assert await left_without_a_trace(deployment, consumer)
    assert (await deployment.history(running))[-1].status is Status.COMPLETED
    assert [tell(event) for event in await deployment.history(waiting)] == ["queued"]


async def test_a_worker_that_waits_for_work_leaves_at_once(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly")
    await deployment.ended(await deployment.submit("kurly", steps=1, seconds=0))  # the group knows it now
    assert consumer.owner in await deployment.group_consumers("kurly")
    consumer.interrupt_group()
    assert await left_without_a_trace(deployment, consumer)


async def test_what_does_not_finish_within_the_grace_is_handed_back_at_no_cost(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly", pace=Pace(grace=0.3))
    job = await deployment.submit("kurly", steps=2, seconds=0.6)
    await deployment.started(job)
    consumer.interrupt()
    assert await left_without_a_trace(deployment, consumer)
    await deployment.consumer("kurly")
    told = [event for event in await deployment.ended(job) if event.step is None]
    assert [tell(event) for event in told] == ["queued", "started 1", "superseded 1", "started 2", "completed 2"]
    assert told[2].reason == "released"
    assert (await deployment.record(job)).crashes == 0


async def test_a_second_signal_hands_back_at_once(deployment: Deployment) -> None:
    consumer = await deployment.consumer("kurly", pace=Pace(grace=600.0))
    job = await deployment.submit("kurly", steps=1, seconds=600.0)
    await deployment.started(job)
    consumer.interrupt()
    await eventually("it drains", lambda: logged(consumer, "draining"))
    consumer.interrupt()
    assert await left_without_a_trace(deployment, consumer), "long before the grace is over"
    assert [tell(event) for event in await deployment.history(job)] == ["queued", "started 1", "superseded 1"]


async def test_jobs_are_handed_back_when_the_store_returns_within_the_grace(deployment: Deployment) -> None:
    async with Link(deployment.url) as link:
        consumer = await deployment.consumer("kurly", pace=Pace(grace=600.0, deadline=60.0, beat=0.5), url=link.url)
        job = await deployment.submit("kurly", steps=1, seconds=600)
        await deployment.started(job)
        link.cut()
        consumer.interrupt()
        await eventually("it drains", lambda: logged(consumer, "draining"))
        await asyncio.sleep(1.0)  # the outage lasts for a part of the grace
        await link.heal()
        consumer.interrupt()  # that is the end of the grace
        assert await consumer.ended() == 0
    history = await deployment.history(job)
    assert [(tell(event), event.reason) for event in history[1:]] == [("started 1", None), ("superseded 1", "released")]
    assert (await deployment.record(job)).crashes == 0


async def test_a_worker_that_cannot_hand_back_says_which_jobs_and_exits_with_1(deployment: Deployment) -> None:
    async with Link(deployment.url) as link:
        pace = Pace(grace=0.3, deadline=0.9, beat=0.3)
        consumer = await deployment.consumer("kurly", pace=pace, url=link.url)
        job = await deployment.submit("kurly", steps=1, seconds=60)
        await deployment.started(job)
        link.cut()
        await eventually("its beats fail", lambda: logged(consumer, "beats_fail"))
        await asyncio.sleep(pace.deadline)  # from then on it knows that nobody hears it
        consumer.interrupt()
        assert await consumer.ended() == 1
    (warned,) = consumer.said("draining_without_store")
    (left,) = consumer.said("not_handed_back")
    assert (warned["running"], left["count"], left["jobs"]) == (1, 1, job)


async def logged(consumer: ConsumerProcess, event: str) -> bool:
    return bool(consumer.said(event))
