"""A platform with corrupt keys: the hearts of those who serve it beat on, and take care of the others."""

from typing import Any

import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.streams import PlatformKeys, Store
from tests.consumers.conftest import PLATFORMS, Bench, serving
from tests.support.builders import Desk
from tests.support.eventually import eventually

handles = Handlers()


@handles("quick")
async def quick(attempt: Attempt[Any]) -> None:
    await attempt.progress(1)


async def beats(store: Store, platform: str) -> int:
    return sum(map(int, (await store.command("HGETALL", PlatformKeys(platform)["beats"]))[1::2]))


async def spoil(store: Store, name: str) -> None:
    key = PlatformKeys("single")[name]
    if name == "control":
        await store.command("HSET", key, "restarts", "often")
    else:
        await store.command("SET", key, "corrupt")


@pytest.mark.parametrize("name", ["leases", "beats", "control"])
async def test_a_corrupt_platform_ends_no_heart(bench: Bench, name: str) -> None:
    other = Desk(bench.store, "many")
    await other.submit("lost")
    await other.transitions.claim(other.keys, "ann", 0.5, PLATFORMS["many"], ["n1"])
    async with serving(bench.store, handles):

        async def serves() -> bool:
            return await beats(bench.store, "single") > 1

        async def reclaimed() -> bool:
            record = await other.record("lost")
            return record.state != "running" or record.owner != "ann"

        await eventually("it serves both", serves)
        await spoil(bench.store, name)
        before = await beats(bench.store, "many")

        async def beats_on() -> bool:
            return await beats(bench.store, "many") > before + 5

        await eventually("beats on the other platform", beats_on)
        await eventually("what another lost there is taken back", reclaimed)
        await bench.end_of(await bench.submit("quick"))
