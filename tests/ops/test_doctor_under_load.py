"""`doctor --repair` while all runs: what was broken by hand is named and put right, no job is lost or run twice."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tailrace.producers import Tailrace
from tailrace.streams.keys import GROUP, split_id
from tailrace.streams.states import Status
from tailrace.streams.store.connection import ServerRefusal
from tests.ops.commands import Here
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

HANDLERS = """
import asyncio, os
from tailrace import Attempt, Handlers

handles = Handlers()


@handles("note")
async def note(attempt: Attempt[dict]) -> int:
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{attempt.job.id} {attempt.number}\\n")
    await asyncio.sleep(attempt.args.get("seconds", 0.02))
    return attempt.number
"""

CONFIG = "[platforms.research]\nmax_running_per_process = 4\nmax_running_per_key = 2\n"
BROKEN = {
    "its entry is gone from the queue",
    "it is delayed, but no time is set for it: nothing will wake it",
    "the lease n9 cannot be read: it only takes up room",
    "limit key tea counts 7 running, but 0 run",
    "it holds the order cart, but does not run",
    "its record cannot be read: ValueError(\"'dancing' is not a valid State\")",
}


async def test_what_was_broken_by_hand_is_repaired_under_load(valkey_url: str, tmp_path: Path, here: Here) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    notes = tmp_path / "notes"
    handlers = str(tmp_path / "handlers.py")
    async with Deployment(valkey_url, tmp_path, CONFIG) as deployment, Tailrace(valkey_url) as tr:
        store, keys = deployment.store, deployment.store.keys("research")
        await deployment.consumers(2, "research", TAILRACE_HANDLERS=handlers, NOTES=str(notes))
        accepted: list[str] = []

        async def submit(name: str, **more: Any) -> str:
            job = await tr.submit("research", "note", more.pop("args", {}), id=name, **more)
            accepted.append(job.id)
            return name

        async def load() -> None:
            for number in range(10_000):
                shape = ({}, {"limit_key": "shop"}, {"order_key": f"o{number % 3}"})[number % 3]
                await submit(f"load-{number}", **shape)
                await asyncio.sleep(0.005)

        async def entry(name: str) -> str:
            return (await deployment.record(f"research.{name}")).entry

        loading = asyncio.create_task(load())
        try:
            await eventually(
                "jobs end", lambda: asyncio.sleep(0, notes.exists() and notes.read_text().count("\n") > 50)
            )
            # Jobs that rest, so that consumers do not meet them before the doctor does.
            for name in ("no-entry", "no-time", "no-sense"):
                await submit(name, delay_seconds=600)
            await store.command("XDEL", keys.jobs("normal"), await entry("no-entry"))
            await store.command("ZREM", keys["due"], "no-time", "no-entry")
            await store.command("HSET", keys.record("no-sense"), "state", "dancing")
            await store.command("ZREM", keys["due"], "no-sense")
            await store.command("HSET", keys["leases"], "n9", "rubbish")
            await store.command("HSET", keys["limits"], "tea", 7)
            await store.command("HSET", keys["orders"], "cart", "gone")
            await store.command("ZADD", keys.front("low"), 1, "ghost")
            await store.command("XADD", keys.jobs("low"), "*", "id", "ghost")
            await submit("handed-out", priority="low")
            with suppress(ServerRefusal):  # a consumer was quicker, and the line is gone with its only job
                await store.command(
                    "XREADGROUP", "GROUP", GROUP, "nobody", "COUNT", 9, "STREAMS", keys.jobs("low"), ">"
                )
            environment = {"REDIS_URL": valkey_url, "TAILRACE_CONFIG": str(tmp_path / "tailrace.toml")}
            code, said, _ = await here.beside("doctor", "--repair", "--json", **environment)
            findings = json.loads(said)
            assert code == 0, [finding for finding in findings if finding.get("level") == "wrong"]
            repaired = {finding["says"] for finding in findings if finding.get("level") == "repaired"}
            assert repaired >= BROKEN, BROKEN - repaired
        finally:
            loading.cancel()
        histories = await deployment.all_ended(accepted, seconds=60)
        code, said, _ = await here.beside("doctor", **environment)
        assert (code, "✗" in said) == (0, False), said
    runs = Counter(line.split()[0] for line in notes.read_text().splitlines())
    assert runs == dict.fromkeys(accepted, 1)
    for job, events in histories.items():
        assert [event.status for event in events].count(Status.COMPLETED) == 1, split_id(job)
