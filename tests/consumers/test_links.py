"""One worker's link to the store breaks while everybody else's holds."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tailrace.streams.errors import NoStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.states import Status
from tailrace.streams.store.connection import Store
from tests.support.builders import tell
from tests.support.deployment import PACE, Deployment
from tests.support.eventually import eventually
from tests.support.faults import Link
from tests.support.processes import ConsumerProcess, Pace, asleep

PATIENT = Pace(
    deadline=3.0, beat=0.4, reap=0.4
)  # a beat lost in a black hole is given up after a third of the deadline
SHORT_SECONDS = 0.6
STEPS = 30

Fault = Callable[[Link], None]


@pytest.fixture
async def link(deployment: Deployment) -> AsyncIterator[Link]:
    async with Link(deployment.url) as link:
        yield link


async def far_worker(deployment: Deployment, link: Link, pace: Pace = PACE) -> ConsumerProcess:
    """One that reaches the store over the link, and has run a job: the store knows all its scripts."""
    far = await deployment.consumer("kurly", "ably", pace=pace, url=link.url)
    await deployment.ended(await deployment.submit("ably", steps=1, seconds=0))  # which nobody else serves
    return far


def worked_once(steps: int) -> list[str]:
    return ["queued", "started 1", *(f"progress 1 step {step}" for step in range(1, steps + 1)), "completed 1"]


def unanswered(link: Link) -> None:
    link.swallow(requests=False)


def unheard(link: Link) -> None:
    link.swallow(replies=False)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Link.cut], id="cut"),
        pytest.param([Link.swallow, unanswered, unheard], id="black-hole", marks=pytest.mark.chaos),
    ],
)
async def test_a_link_that_is_away_for_less_than_the_deadline_costs_nothing(
    deployment: Deployment, link: Link, faults: list[Fault]
) -> None:
    far, near = await asyncio.gather(far_worker(deployment, link, PATIENT), deployment.consumer("kurly", pace=PATIENT))
    with asleep(near):  # someone who would take over
        job = await deployment.submit("kurly", steps=STEPS, seconds=0.1)
        await deployment.started(job)
    for fault in faults:
        await reports(deployment, job)
        link.delay_seconds = 0.02
        fault(link)
        await asyncio.sleep(SHORT_SECONDS)
        await link.heal()
    history = await deployment.ended(job)
    assert [tell(event) for event in history] == worked_once(STEPS)
    assert history[-1].workerId == far.owner


async def reports(deployment: Deployment, job: str) -> None:
    """Wait until the job shows something new and a beat is due: its link works both ways."""
    seen = len(await deployment.raw_log(job))

    async def more() -> bool:
        return len(await deployment.raw_log(job)) > seen + 2

    await eventually("the job reports again", more)
    await asyncio.sleep(PATIENT.beat)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(Link.swallow, id="black-hole"), pytest.param(Link.cut, id="cut", marks=pytest.mark.chaos)],
)
async def test_a_worker_that_is_cut_off_is_taken_over_once_and_mute_when_it_is_back(
    deployment: Deployment, link: Link, fault: Fault
) -> None:
    far, near = await asyncio.gather(far_worker(deployment, link), deployment.consumer("kurly"))
    with asleep(near):
        job = await deployment.submit("kurly", steps=10, seconds=0.1)
        await deployment.started(job)
    fault(link)
    await deployment.started(job, attempt=2)
    await link.heal()
    history = await deployment.ended(job)

    done = sum(event.status is Status.PROGRESS and event.attempt == 1 for event in history)
    assert [tell(event) for event in history] == [
        *worked_once(done)[:-1],
        "superseded 1",
        "started 2",
        *(f"progress 2 step {step}" for step in range(1, 11)),
        "completed 2",
    ]
    assert {event.workerId for event in history if event.attempt == 2} == {near.owner}
    assert await deployment.raw_log(job) == history[1:]

    async def learnt() -> bool:
        return any(line["job"] == job for line in far.said("attempt_lost"))

    await eventually("the worker that was cut off knows", learnt)
    near.kill_group()
    again = await deployment.ended(await deployment.submit("kurly", steps=1, seconds=0))
    assert [tell(event) for event in again] == worked_once(1)
    assert again[-1].workerId == far.owner


async def test_a_call_whose_answer_was_lost_is_repeated_without_effect(deployment: Deployment, link: Link) -> None:
    """The store carried it out and the worker cannot know: a claim, a report, an end."""
    await far_worker(deployment, link)
    for lost in ({"holding": b"the claim"}, {"to": b" progress "}, {"to": b" completed "}):
        link.drop_reply(**lost)
        jobs = [await deployment.submit("kurly", steps=2, seconds=0.05, text="the claim") for _ in range(2)]
        for job, history in (await deployment.all_ended(jobs)).items():
            assert [tell(event) for event in history] == worked_once(2)
            assert await deployment.raw_log(job) == history[1:]
        assert link.dropped.is_set()
    await eventually("nothing is left", lambda: nothing_is_left(deployment))


async def test_somebody_who_answers_and_hangs_up_is_no_store() -> None:
    """A proxy without its server does that, at any moment of the greeting: each a little later than the one before."""
    turns = iter(range(50))

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(next(turns)):
            await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for _ in range(50):
            async with Store(url) as store:
                with pytest.raises(NoStore):
                    await store.command("PING")


async def nothing_is_left(deployment: Deployment) -> bool:
    """No lease, no entry: everything that was claimed is accounted for."""
    in_line = await deployment.store.command("XLEN", PlatformKeys("kurly").jobs("normal"))
    return not in_line and not await deployment.leases("kurly")
