"""Retention: one round removes all there is to remove, whatever became of the keys of another platform."""

import pytest

from tailrace.consumers.heart.upkeep.retention import Retention
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Policy
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tests.consumers.instructions import told
from tests.support.builders import Desk

PLATFORMS = ("ably", "kurly")


async def test_a_corrupt_platform_does_not_hold_up_the_retention_of_another(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.consumers.heart.upkeep.retention.FORGET_BATCH", 4)
    instructions = told(*PLATFORMS, policy=Policy(keep_completed_seconds=0))
    async with Store(valkey_url) as store:
        desk = Desk(store, "kurly")
        await desk.submit(*"abcdefghij")
        for held in await desk.claim(slots=10):
            await desk.complete(held)
        await store.command("SET", PlatformKeys("ably")["ended_completed"], "corrupt")
        await Retention(instructions, Transitions(store)).round()
        assert await store.command("LLEN", desk.keys["ended_completed"]) == 0
