"""`GET /api/v2/jobs/running` while consumers are killed: it agrees with the store, and nothing is left to clear up."""

import asyncio
from datetime import datetime
from typing import NamedTuple

import pytest

from tailrace.streams.history.events import Event
from tailrace.streams.states import Status
from tailrace.streams.store.server import read_clock
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.long_runs import scaled
from tests.support.processes import ConsumerProcess

PLATFORMS = ("kurly", "hwahae", "research")
WITHIN_MS = 1000  # promised; an answer is made of the store as it is, so it is far less
AT_WORK = (Status.STARTED, Status.PROGRESS, Status.CANCELLING)  # any other event of an attempt is its last


class Answer(NamedTuple):
    """What was running by one answer, and the store's time before it was asked for and after it came."""

    asked_ms: int
    came_ms: int
    jobs: frozenset[str]
    told: int


class Span(NamedTuple):
    """When an attempt had its lease, by the store's time."""

    began_ms: float
    ended_ms: float


def spans_of(events: list[Event]) -> list[Span]:
    """Each event of a job is written in the same step as its lease: these are the times of the leases."""
    spans, began = [], 0.0
    for event in events:
        if not event.attempt:
            continue
        at_ms = datetime.fromisoformat(event.time).timestamp() * 1000
        if event.status is Status.STARTED:
            began = at_ms
        elif event.status not in AT_WORK and began:
            spans.append(Span(began, at_ms))
            began = 0.0
    return spans


def wrong(answer: Answer, spans: dict[str, list[Span]]) -> list[str]:
    """What an answer tells that was not so within a second, and what it leaves out that was."""
    first, last = answer.asked_ms - WITHIN_MS, answer.came_ms
    found = [] if answer.told == len(answer.jobs) else [f"it counts {answer.told} and names {len(answer.jobs)}"]
    for job, leases in spans.items():
        listed = job in answer.jobs
        # An event tells its time in whole milliseconds.
        if listed and not any(each.began_ms <= last + 1 and each.ended_ms >= first - 1 for each in leases):
            found.append(f"{job} is listed at {last}, and ran {leases}")
        if not listed and any(each.began_ms < first - 1 and each.ended_ms > last + 1 for each in leases):
            found.append(f"{job} is not listed at {last}, and ran {leases}")
    return found + [f"{job} was never accepted" for job in answer.jobs - spans.keys()]


class Watcher:
    """Asks again and again, as long as it runs."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._keys = deployment.store.keys(PLATFORMS[0])
        self.answers: list[Answer] = []

    async def ask(self) -> Answer:
        gateway = self._deployment.gateways[len(self.answers) % len(self._deployment.gateways)]
        asked_ms = await read_clock(self._deployment.store, self._keys)
        data = (await self._deployment.http.get(f"{gateway.url}/api/v2/jobs/running")).json()["data"]
        came_ms = await read_clock(self._deployment.store, self._keys)
        jobs = frozenset(job["job_id"] for job in data["running"])
        return Answer(asked_ms, came_ms, jobs, data["summary"]["running_count"])

    async def run(self) -> None:
        while True:
            self.answers.append(await self.ask())
            await asyncio.sleep(0.03)  # often enough to see every attempt, and not all that a gateway does


async def held_by(deployment: Deployment, consumer: ConsumerProcess) -> int:
    """On how many platforms it runs a job."""
    return sum([any(lease.owner == consumer.owner for lease in await deployment.leases(p)) for p in PLATFORMS])


async def freeze_at_work(deployment: Deployment, consumers: list[ConsumerProcess]) -> ConsumerProcess | None:
    """The consumer that runs jobs on the most platforms, stopped in the middle of them: they cannot end any more."""
    held = {consumer: await held_by(deployment, consumer) for consumer in consumers}
    victim = max(consumers, key=lambda consumer: held[consumer])
    if not held[victim]:
        return None
    victim.freeze()
    if await held_by(deployment, victim):
        return victim
    victim.thaw()
    return None


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, id="1"),
        pytest.param(scaled(30), marks=[pytest.mark.chaos, pytest.mark.timeout(600)], id="many"),
    ],
)
async def test_running_jobs_are_those_of_the_store_while_consumers_are_killed(
    deployment: Deployment, kills: int
) -> None:
    await deployment.gateway()
    consumers = await deployment.consumers(2, *PLATFORMS)
    watcher = Watcher(deployment)
    watching = asyncio.create_task(watcher.run())
    gone: list[str] = []
    for _ in range(kills):
        for platform in PLATFORMS:
            for _ in range(2):
                await deployment.submit(platform, steps=3, seconds=0.2)

        async def at_work() -> ConsumerProcess | None:
            return await freeze_at_work(deployment, consumers)

        victim = await eventually("a consumer is at work", at_work)
        assert victim
        gone.append(victim.owner)
        victim.kill_group()
        consumers.remove(victim)
        if len(gone) < kills:
            consumers.append(await deployment.consumer(*PLATFORMS))
    histories = await deployment.all_ended(deployment.accepted)

    async def idle() -> bool:
        return len(watcher.answers) > 1 and watcher.answers[-1].told == 0

    await eventually("an answer is empty", idle)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

    assert {history[-1].status for history in histories.values()} == {Status.COMPLETED}
    spans = {job: spans_of(await deployment.raw_log(job)) for job in deployment.accepted}
    assert sum(len(each) > 1 for each in spans.values()) >= kills, "each kill took at least one job"
    assert [fault for answer in watcher.answers for fault in wrong(answer, spans)] == []
    assert any(answer.jobs for answer in watcher.answers)
    await eventually("nothing is left of those that were killed", lambda: nothing_left(deployment, gone))


async def nothing_left(deployment: Deployment, gone: list[str]) -> bool:
    """No lease, no entry of a job, no trace of a killed consumer: nothing is there for a person to delete."""
    left: list[str] = []
    for platform in PLATFORMS:
        keys = deployment.store.keys(platform)
        left += [lease.key for lease in await deployment.leases(platform)]
        left += [str(entry) for entry in await deployment.store.command("XRANGE", keys.jobs("normal"), "-", "+")]
        left += [owner for owner in gone if owner in await deployment.beats(platform)]
        left += [owner for owner in gone if await deployment.store.command("HEXISTS", keys["consumers"], owner)]
        left += [owner for owner in gone if await deployment.store.command("EXISTS", keys.holds(owner))]
        left += [owner for owner in gone if owner in await deployment.group_consumers(platform)]
    return not left
