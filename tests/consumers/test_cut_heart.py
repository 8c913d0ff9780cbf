"""A heart that cannot beat: its consumer claims nothing until it can, and no longer than others wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.consumer import Consumer
from tailrace.consumers.settings import ConsumerSettings
from tailrace.streams.process.settings import Environment
from tailrace.streams.process.shutdown import Shutdown
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.consumers.conftest import PLATFORMS, QUICK, Bench
from tests.support.builders import Desk
from tests.support.eventually import eventually
from tests.support.faults import Link

handles = Handlers()


@handles("quick")
async def quick(attempt: Attempt[Any]) -> None:
    await attempt.progress(1)


@pytest.fixture
async def link(bench: Bench) -> AsyncIterator[Link]:
    async with Link(bench.store.url) as link:
        yield link


@asynccontextmanager
async def consumer_with_a_far_heart(store: Store, link: Link) -> AsyncIterator[Consumer]:
    """Its heart reaches the store over the link, its own calls do not."""
    settings = ConsumerSettings.read(PLATFORMS, environment=Environment(QUICK))
    shutdown = Shutdown()
    async with Store(store.url) as own, anyio.create_task_group() as tasks:
        consumer = Consumer(settings, PLATFORMS, handles, own)
        consumer._supervisor._instructions = replace(consumer._supervisor._instructions, url=link.url)
        tasks.start_soon(consumer.run, shutdown)
        try:
            yield consumer
        finally:
            shutdown.request()


async def test_a_consumer_whose_heart_is_cut_off_claims_nothing_and_goes_on_by_itself(bench: Bench, link: Link) -> None:
    async with consumer_with_a_far_heart(bench.store, link) as consumer:
        await bench.end_of(await bench.submit("quick"))
        link.cut()

        await eventually("the last good beat is too old", lambda: said(not consumer._may_claim(0)))
        job_id = await bench.submit("quick")
        single = await bench.submit("quick", platform="single")
        await anyio.sleep(0.5)  # a claim would come within milliseconds
        for job, platform in ((job_id, "many"), (single, "single")):
            record = await Desk(bench.store, platform).record(job.partition(".")[2])
            assert (record.state, record.attempt) == (State.WAITING, 0)
        await link.heal()
        for job in (job_id, single):
            assert [(event.attempt, event.status) for event in (await bench.end_of(job))[1:]] == [
                (1, "started"),
                (1, "progress"),
                (1, "completed"),
            ]


async def test_a_consumer_that_starts_while_its_heart_has_no_way_to_the_store_waits_for_it(
    bench: Bench, link: Link
) -> None:
    link.cut()
    async with consumer_with_a_far_heart(bench.store, link) as consumer:
        job_id = await bench.submit("quick")

        async def lives() -> bool:
            heart = consumer._supervisor.process
            return heart is not None and heart.poll() is None

        await eventually("its heart lives", lives)
        await anyio.sleep(1.0)  # several beats that fail
        assert (await Desk(bench.store, "many").record(job_id.partition(".")[2])).state is State.WAITING
        await link.heal()
        assert (await bench.end_of(job_id))[-1].attempt == 1


@pytest.mark.parametrize(("setting", "closed", "opened"), [("maxclients", "1", "10000"), ("requirepass", "secret", "")])
async def test_a_heart_that_the_store_refuses_lives_on_and_beats_as_soon_as_it_may(
    bench: Bench, link: Link, setting: str, closed: str, opened: str
) -> None:
    async with consumer_with_a_far_heart(bench.store, link) as consumer:
        await bench.end_of(await bench.submit("quick"))
        heart = consumer._supervisor.process
        await bench.store.command("CONFIG", "SET", setting, closed)
        try:
            link.cut()
            await link.heal()
            await eventually("the last good beat is too old", lambda: said(not consumer._may_claim(0)))
        finally:
            await bench.store.command("CONFIG", "SET", setting, opened)
        await bench.end_of(await bench.submit("quick"))
        assert consumer._supervisor.process is heart


async def test_an_outage_is_told_once_at_its_beginning_and_once_at_its_end(
    bench: Bench, link: Link, capfd: pytest.CaptureFixture[str]
) -> None:
    async with consumer_with_a_far_heart(bench.store, link) as consumer:
        await bench.end_of(await bench.submit("quick"))
        heart = consumer._supervisor.process
        link.cut()
        await anyio.sleep(2.5)  # a dozen beats that fail
        await link.heal()
        await eventually("it beats again", lambda: said(consumer._may_claim(0)))
        assert consumer._supervisor.process is heart, "a heart whose beats fail is not started again"
    logged = capfd.readouterr()
    told = (logged.out + logged.err).splitlines()
    assert sum("beats_fail" in line for line in told) == 1
    assert sum("beats_arrive_again" in line for line in told) == 1


async def said(value: bool) -> bool:
    return value
