"""What one heart does for others, in this process: looks go on whatever else there is to do."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from tailrace.consumers.heart.heart import Heart
from tailrace.consumers.heart.shared_memory import LeaseTable
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim
from tailrace.streams.policies import Policy
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.consumers.instructions import told
from tests.support.builders import Desk
from tests.support.eventually import eventually


class Watched(Transitions):
    """Counts looks; what is named in `stuck` never comes back."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.looks = 0
        self.stuck: set[str] = set()

    async def tend(self, platforms: Any) -> Any:
        self.looks += 1
        return await super().tend(platforms)

    async def forget(self, platforms: Any, most: int = 0) -> Any:
        if "forget" in self.stuck:
            await asyncio.Event().wait()
        return await super().forget(platforms, most)

    async def reclaim(self, platform: PlatformKeys, leases: Any, counter: str, policy: Policy) -> Any:
        if "reclaim" in self.stuck:
            await asyncio.Event().wait()
        return await super().reclaim(platform, leases, counter, policy)


@pytest.fixture
async def desk(valkey_url: str) -> AsyncIterator[Desk]:
    async with Store(valkey_url) as store:
        yield Desk(store)


@pytest.fixture
async def watched(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    """A heart at work, and what it calls."""

    async def nothing_is_said(_: int) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr("tailrace.consumers.heart.heart.read_line", nothing_is_said)
    for module in ("heart", "heartbeat"):
        monkeypatch.setattr(f"tailrace.consumers.heart.{module}.tell", lambda news: True)
    table, transitions = LeaseTable(), Watched(desk.store)
    pace = {"beat_seconds": 0.2, "deadline_seconds": 0.6, "reap_seconds": 0.2, "obey_seconds": 5.0}
    who = {"url": desk.store.url, "owner": "observer", "consumer_pid": os.getpid(), "table_fd": table.fd}
    instructions = told(desk.keys.platform, policy=desk.policy, **who, **pace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Heart(instructions, transitions, table).run)
        yield transitions
        tasks.cancel_scope.cancel()
    table.close()


async def looks_go_on(watched: Watched) -> None:
    before = watched.looks

    async def more() -> bool:
        return watched.looks >= before + 10

    await eventually("ten more looks", more)


async def held_by_a_ghost(desk: Desk, *keys: str) -> list[Claim]:
    """Jobs of an owner that never beats, and whose own deadline is short."""
    await desk.submit(*keys)
    return await desk.transitions.claim(desk.keys, "ghost", 0.5, desk.policy, desk.nonces("ghost", len(keys)))


async def left(desk: Desk) -> bool:
    return not await desk.store.command("HLEN", desk.keys["leases"])


async def test_neither_retention_nor_reclaims_delay_a_look(desk: Desk, watched: Watched) -> None:
    watched.stuck = {"forget", "reclaim"}
    await held_by_a_ghost(desk, "a")
    await looks_go_on(watched)
    assert (await desk.record("a")).state is State.RUNNING


async def test_jobs_are_recovered_while_retention_takes_long(desk: Desk, watched: Watched) -> None:
    watched.stuck = {"forget"}
    await held_by_a_ghost(desk, "a")
    await eventually("its job is taken away", lambda: left(desk))
    assert (await desk.record("a")).crashes == 1


async def test_thousands_of_jobs_of_a_dead_owner_are_recovered(desk: Desk, watched: Watched) -> None:
    await held_by_a_ghost(desk, *(f"job-{number}" for number in range(2000)))
    await eventually("all its jobs are taken away", lambda: left(desk), seconds=30)
    assert watched.looks > 1


async def test_a_job_whose_owner_is_in_no_list_is_recovered(
    desk: Desk, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.consumers.heart.recovery.ENLIST_SECONDS", 0.2)
    await held_by_a_ghost(desk, "a")
    await desk.store.command("DEL", desk.keys["beats"], desk.keys.holds("ghost"))
    await eventually("its job is taken away", lambda: left(desk))


async def test_a_corrupt_job_of_a_dead_owner_holds_up_no_other(desk: Desk, watched: Watched) -> None:
    held = await held_by_a_ghost(desk, "a", "b", "c")
    await desk.store.command("SET", desk.keys.record("b"), "corrupt")

    async def two_are_back() -> bool:
        leases = await desk.transitions.holdings(desk.keys, "ghost")
        return [lease.nonce for lease in leases] == [held[1].nonce]

    await eventually("the others are taken away", two_are_back)
    await looks_go_on(watched)


async def test_an_owner_with_a_longer_deadline_keeps_its_job_for_as_long(desk: Desk, watched: Watched) -> None:
    """The lease says 10 s, the observer 0.6 s: the larger one counts."""
    held = await desk.start("a", "ghost")
    await looks_go_on(watched)  # two seconds, at least
    (lease,) = (await desk.look()).leases
    assert (lease.nonce, lease.deadline_seconds) == (held.nonce, 10.0)
