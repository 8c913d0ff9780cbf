"""The mender: jobs that no list names come back in line, and its pages are shared among all consumers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.consumers.heart.upkeep.mender import EVERY_SECONDS, Mender
from tailrace.streams.keys import GROUP, PlatformKeys
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.consumers.instructions import told
from tests.support.builders import Desk
from tests.support.deployment import Deployment

LONG = 1_000_000.0  # by then every platform has its turn


@pytest.fixture
async def desk(valkey_url: str) -> AsyncIterator[Desk]:
    async with Store(valkey_url) as store:
        yield Desk(store, "kurly")


def mender(desk: Desk, *platforms: str) -> Mender:
    return Mender(told(*platforms or ("kurly",)), Transitions(desk.store))


async def strand(desk: Desk, *keys: str) -> None:
    """Jobs that were handed out to a stranger: no claim will see them."""
    await desk.submit(*keys)
    line = desk.keys.jobs("normal")
    if not await desk.store.command("XINFO", "GROUPS", line):
        await desk.store.command("XGROUP", "CREATE", line, GROUP, 0)
    await desk.store.command("XREADGROUP", "GROUP", GROUP, "stranger", "COUNT", len(keys), "STREAMS", line, ">")


async def test_a_round_puts_back_what_no_list_names(desk: Desk) -> None:
    await strand(desk, "a", "b")
    await mender(desk).round(LONG)
    assert [held.key for held in await desk.claim("ann", 5)] == ["a", "b"]


async def test_a_platform_has_its_turn_less_often_the_more_consumers_beat(desk: Desk) -> None:
    role = mender(desk)
    for number in range(20):
        await desk.beat(f"owner-{number}")
    await role.round(LONG)
    await strand(desk, "a")
    await role.round(LONG + 5 * EVERY_SECONDS)
    assert await desk.front() == []
    await role.round(LONG + 30 * EVERY_SECONDS)
    assert await desk.front() == ["a"]


async def test_a_platform_with_corrupt_keys_holds_up_no_other(desk: Desk) -> None:
    await desk.store.command("SET", PlatformKeys("ably").jobs("normal"), "corrupt")
    await strand(desk, "a")
    await mender(desk, "ably", "kurly").round(LONG)
    assert await desk.front() == ["a"]


async def test_a_job_of_a_dead_worker_goes_on_although_its_consumer_was_deleted_by_hand(
    valkey_url: str, tmp_path: Path
) -> None:
    async with Deployment(valkey_url, tmp_path) as deployment:
        workers = await deployment.consumers(2, "kurly")
        job = await deployment.submit("kurly", steps=3, seconds=0.2)
        owner = (await deployment.started(job)).workerId
        line = PlatformKeys("kurly").jobs("normal")
        assert await deployment.store.command("XGROUP", "DELCONSUMER", line, GROUP, owner) == 1
        next(worker for worker in workers if worker.owner == owner).kill()
        assert (await deployment.started(job, attempt=2)).workerId != owner
        assert (await deployment.ended(job))[-1].status == "completed"
