"""detach: a child whose parent is gone goes on as a job of its own."""

from typing import Any

import pytest

from tailrace.streams.flows.relay import Relay
from tailrace.streams.operations import call
from tailrace.streams.options import marks_of
from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.flowing import child_of, children, join, other, outbox, spawn, wait


async def detach(desk: Desk, key: str, parent: str = "shop.a") -> str:
    return await desk.transitions.word(desk.keys, call.detach(desk.keys, key=key, parent=parent))


async def relay(desk: Desk) -> None:
    await Relay(desk.transitions).deliver(desk.keys)


async def orphan(desk: Desk, **options: Any) -> Desk:
    """The platform of a child, kurly.b, whose parent is gone."""
    kurly, held = other(desk), await desk.start("a")
    await spawn(desk, held, child_of("kurly.b", **options))
    await relay(desk)
    await desk.complete(held)
    await desk.store.command("DEL", desk.keys.record("a"), desk.keys.children("a"), desk.keys.log("a"))
    return kurly


@pytest.mark.parametrize("running", [False, True])
async def test_the_end_of_a_detached_job_is_told_to_nobody(desk: Desk, running: bool) -> None:
    kurly = await orphan(desk, limit_key="l")
    held = (await kurly.claim())[0] if running else None
    assert await detach(kurly, "b") == "ok"
    assert marks_of((await kurly.record("b")).marks) == {"limit": "l"}
    held = held or (await kurly.claim())[0]
    assert await kurly.complete(held, 7) == "ok"
    assert (await kurly.record("b")).state is State.COMPLETED
    assert await outbox(kurly) == []
    assert await kurly.store.command("EXISTS", kurly.keys["limits"]) == 0, "what else it held is given back"


async def test_it_is_done_once_and_only_for_that_parent(desk: Desk) -> None:
    kurly = await orphan(desk)
    async with untouched(desk.store):
        assert await detach(kurly, "b", "shop.z") == "again"
        assert await detach(kurly, "none") == "missing"
    assert await detach(kurly, "b") == "ok"
    await forget_scripts(desk.store)
    async with untouched(desk.store):
        assert await detach(kurly, "b") == "again"
    await kurly.cancel("b")
    async with untouched(desk.store):
        assert await detach(kurly, "b") == "cancelled"


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("platform", ["shop", "kurly"])
async def test_a_parent_that_comes_back_and_spawns_it_again_hears_of_its_end(
    desk: Desk, running: bool, platform: str
) -> None:
    there, held = desk if platform == "shop" else other(desk), await desk.start("a")
    await spawn(desk, held, f"{platform}.b")
    await relay(desk)
    await desk.complete(held)
    await desk.store.command("DEL", desk.keys.record("a"), desk.keys.children("a"), desk.keys.log("a"))
    child = (await there.claim())[0] if running else None
    assert await detach(there, "b") == "ok"
    child = child or (await there.claim())[0]
    parent = await desk.start("a")
    assert await spawn(desk, parent, f"{platform}.b") == ["spawned"]
    await relay(desk)
    await join(desk, parent, f"{platform}.b")
    assert await wait(desk, parent) == "ok"
    await there.complete(child, 7)
    await relay(there)
    assert '"result":7' in (await children(desk, "a"))[f"{platform}.b"]
    assert (await desk.record("a")).state is State.WAITING
