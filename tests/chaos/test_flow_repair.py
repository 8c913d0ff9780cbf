"""`doctor --repair` while flows run: what was made to hang by hand goes on, and nothing else is touched."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from tailrace.ops.doctor.doctor import examine
from tailrace.ops.doctor.finding import Finding
from tailrace.streams.keys import GROUP
from tailrace.streams.options import marks_of
from tailrace.streams.states import State, Status
from tests.chaos.trees import CONFIG, HANDLERS, LEAVES, insist, outboxes_are_empty
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import UNHURRIED

UNSERVED = "[platforms.unserved]\n"
LOAD = 4  # trees at a time
REPAIRS = 5

Doctor = Callable[..., Awaitable[dict[str, Finding]]]

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


@pytest.fixture
def doctor(valkey_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("TAILRACE_CONFIG", str(tmp_path / "tailrace.toml"))

    async def look(*, repair: bool) -> dict[str, Finding]:
        """What it says of jobs and outboxes, by job."""
        found = await examine(argparse.Namespace(data=tmp_path, repair=repair, json=True))
        assert not [
            each.says for each in found if each.about in ("root", *LEAVES) and not each.job and each.level == "wrong"
        ]
        return {
            f"{each.about}.{each.job}" if each.job else each.about: each
            for each in found
            if each.level != "fine"
            and "no consumer serves" not in each.says
            and each.about in ("root", "unserved", *LEAVES)
        }

    return look


async def test_each_way_to_hang_is_named_and_repaired_while_other_flows_run(
    valkey_url: str, tmp_path: Path, dice: Random, doctor: Doctor, tell: Callable[[str], None]
) -> None:
    async with Deployment(valkey_url, tmp_path, CONFIG + UNSERVED) as deployment:
        await deployment.gateway()
        for _ in range(2):
            await deployment.consumer("root", *LEAVES, pace=UNHURRIED, TAILRACE_HANDLERS=HANDLERS)
        effects, trees, over = tmp_path / "effects", list[str](), False

        async def load() -> None:
            while not over:
                args = {"widths": [5, 3], "number": 0, "effects": str(effects)}
                body = {"platform": "root", "kind": "branch", "args": args}
                tree = await insist(deployment, dice, body)
                trees.append(tree)
                await deployment.ended(tree, seconds=120)

        loads = [asyncio.create_task(load()) for _ in range(LOAD)]
        unserved, root = Desk(deployment.store, "unserved"), Desk(deployment.store, "root")
        parents: dict[str, str] = {}  # by what is to be done to them
        children: dict[str, str] = {}
        for deed in ("vanish", "unheard", "late", "orphan"):
            parents[deed] = await deployment.submit("root", kind="awaits")
            key = parents[deed].partition(".")[2]

            async def rests(key: str = key) -> bool:
                return (await root.record(key)).state is State.AWAITING

            await eventually(f"{deed}: its parent awaits it", rests, seconds=60)
            (child,) = await deployment.store.command("HKEYS", root.keys.children(key))
            children[deed] = child.decode().partition(".")[2]

            async def there(key: str = children[deed]) -> bool:
                return bool(await deployment.store.command("EXISTS", unserved.keys.record(key)))

            await eventually(f"{deed}: the child has arrived", there, seconds=60)

        held = {claim.key: claim for claim in await unserved.claim(slots=3)}  # all but the last
        assert children["orphan"] not in held
        await unserved.complete(held[children["unheard"]], 7)
        await deployment.store.command("DEL", unserved.keys["outbox"])  # its end will never arrive
        await unserved.complete(held[children["late"]], 8)
        (entry,) = await deployment.store.command("XRANGE", unserved.keys["outbox"], "-", "+")
        await deployment.store.command("DEL", unserved.keys["outbox"])
        await deployment.store.command("XADD", unserved.keys["outbox"], "1-1", *entry[1])  # undelivered since long ago
        await unserved.release(held[children["vanish"]])
        await unserved.cancel(children["vanish"])
        await deployment.store.command("XDEL", unserved.keys["outbox"], *await entries(unserved, children["vanish"]))
        await unserved.transitions.drop(unserved.keys, children["vanish"])
        key = parents["orphan"].partition(".")[2]
        keys, entry = root.keys, (await root.record(key)).entry  # not by `cancel`: its child would hear of that
        await deployment.store.commands(
            [
                ("DEL", keys.record(key), keys.log(key), keys.children(key), keys.steps(key)),
                ("ZREM", keys["awaiting"], key),
                ("XACK", keys["jobs_normal"], GROUP, entry),
                ("XDEL", keys["jobs_normal"], entry),
            ]
        )

        found = await doctor(repair=False)
        assert "which is not kept" in found[parents["vanish"]].says
        assert "which has ended, and its end did not arrive" in found[parents["unheard"]].says
        assert found["unserved"].says == "its outbox holds news that were not delivered for over 10 s"
        orphan = f"unserved.{children['orphan']}"
        assert found[orphan].says == f"its parent {parents['orphan']} is gone: nothing awaits its end"
        assert len(found) == 4, found
        for _ in range(REPAIRS):  # the others are looked at again and again while they run
            await doctor(repair=True)
        over = True
        await asyncio.gather(*loads)
        assert await doctor(repair=False) == {}

        ends = {deed: (await deployment.ended(parents[deed]))[-1] for deed in ("vanish", "unheard", "late")}
        assert [ends[deed].status for deed in ("vanish", "unheard", "late")] == ["failed", "completed", "completed"]
        assert ends["vanish"].error
        assert "ChildLost" in ends["vanish"].error.message
        assert marks_of((await unserved.record(children["orphan"])).marks) == {}
        (claim,) = await unserved.claim()
        assert claim.key == children["orphan"], "it still runs"
        assert await unserved.complete(claim) == "ok"
        await outboxes_are_empty(deployment)
        histories = await deployment.all_ended(trees)
        assert all(history[-1].result == list(range(15)) for history in histories.values())
        lines = [line for line in effects.read_text().splitlines() if line.startswith("joined root.")]
        assert len(lines) == len(trees), "each went on once"
        assert all([event.status for event in history].count(Status.AWAITING) == 1 for history in histories.values())
        tell(f"repair: 4 flows that hung were repaired while {len(trees)} trees ran")


async def entries(desk: Desk, child: str) -> list[bytes]:
    """Those of an outbox that tell of a child."""
    found = await desk.store.command("XRANGE", desk.keys["outbox"], "-", "+")
    return [entry for entry, flat in found if f"{desk.keys.platform}.{child}".encode() in flat]
