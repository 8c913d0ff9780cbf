"""What beats and looks cost a store with 10,000 running jobs of 300 consumers on one platform, as a part of a core.

No processes are started for the consumers: the calls that their hearts would make in some seconds are made one after
the other, and the processor time of the server is taken from INFO.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tailrace.consumers.heart.heartbeat import MOST_HELD
from tailrace.consumers.heart.recovery import ENLIST_SHARE
from tailrace.consumers.settings import ConsumerSettings
from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.store.connection import Store, info_fields
from tests.support.builders import Desk
from tests.support.crowd import FILL, OWNERS, RUNNING

SECONDS = 20  # of the life of all hearts
LIFE = ConsumerSettings((), "")


async def processor_seconds(store: Store) -> float:
    facts = info_fields(await store.command("INFO", "cpu"))
    return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])


async def measure(store: Store) -> dict[str, float]:
    desk = Desk(store)
    keys, transitions = desk.keys, desk.transitions
    await store.command("EVAL", FILL, 0, keys.prefix, RUNNING, OWNERS)
    owners = [owner for beats in await transitions.observe([keys]) for owner in beats]
    held = {owner: [n.decode() for n in await store.command("SMEMBERS", keys.holds(owner))] for owner in owners}
    assert max(map(len, held.values())) < MOST_HELD
    await store.commands([("CONFIG", "SET", "slowlog-log-slower-than", 1000), ("SLOWLOG", "RESET")])
    found: dict[str, float] = {}

    async def take(name: str, every_seconds: float, call: Callable[[str], Awaitable[Any]]) -> None:
        before = await processor_seconds(store)
        count = round(OWNERS * SECONDS / every_seconds)
        for number in range(count):
            await call(owners[number % OWNERS])
        found[name] = (await processor_seconds(store) - before) / SECONDS

    await take("beat", LIFE.beat_seconds, lambda owner: transitions.beat([(keys, held[owner])], owner))
    await take("look", LIFE.reap_seconds, lambda owner: transitions.tend([(keys, desk.policy)]))
    await take("enlist", ENLIST_SHARE * OWNERS, lambda owner: transitions.enlist([(keys, 0)]))
    slow = await store.command("SLOWLOG", "GET", 128)
    found["slowest call, ms"] = max((entry[2] for entry in slow), default=0) / 1000
    return found


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, OwnStore(Path(folder)) as own:
        async with Store(own.url) as store:
            found = await measure(store)
    for name, value in found.items():
        say(f"{name:20}{value:8.3f}")
    say(f"{'of a core in all':20}{sum(value for name, value in found.items() if ',' not in name):8.3f}")


if __name__ == "__main__":
    asyncio.run(main())
