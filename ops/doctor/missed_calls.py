"""Checks for lost wake-ups: a job that may start, and an idle consumer that is not called.

Whatever brings work into the queue calls a consumer in the same moment, and hearts call others for one that does not
come. So a job that waits in front of an open platform, beside consumers listed as idle and none listed as called, is a
defect if it is still so after several looks of the hearts.
"""

from collections.abc import Iterable

import anyio

from tailrace.ops.doctor.finding import Finding, wrong
from tailrace.ops.doctor.way_forward import last_delivered
from tailrace.streams.errors import JobNotFound
from tailrace.streams.keys import BANDS, PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.process.launch import PROGRAM
from tailrace.streams.replies import read_record
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.store.server import to_ms
from tailrace.streams.views.overview import take_overviews

PATIENCE_SECONDS = 2.5  # hearts look once a second


async def look_at_calls(store: Store, platforms: Platforms, names: Iterable[str]) -> list[Finding]:
    """Jobs that no consumer will look at. Each was seen twice, some seconds apart."""
    suspects = await find_uncalled(store, platforms, names)
    if not suspects:
        return []
    await anyio.sleep(PATIENCE_SECONDS)
    again = await find_uncalled(store, platforms, suspects)
    says = "it may start and consumers are idle, but none of them was called"
    return [
        wrong(name, says, f"{PROGRAM} doctor --repair", job=job, remedy="tidy call")
        for name, job in suspects.items()
        if again.get(name) == job
    ]


async def find_uncalled(store: Store, platforms: Platforms, names: Iterable[str]) -> dict[str, str]:
    """Platforms that are open and have idle consumers, none of them called: the first job that may start there."""
    found = {}
    for overview in await take_overviews(store, names):
        keys = store.keys(overview.platform)
        policy = platforms.get(overview.platform, Policy())
        full = 0 < policy.max_running <= overview.running
        if not overview.waiting or overview.paused or overview.held_seconds or full:
            continue
        idle, called = await store.commands([("ZCARD", keys["idle"]), ("ZCARD", keys["called"])])
        if idle and not called and await rate_is_open(store, keys, policy):
            job = await first_in_line(store, keys, policy)
            if job:
                found[overview.platform] = job
    return found


async def rate_is_open(store: Store, keys: PlatformKeys, policy: Policy) -> bool:
    if not policy.rate:
        return True
    clock, counted = await store.commands([("TIME",), ("LINDEX", keys["starts"], -policy.rate)])
    return counted is None or abs(to_ms(clock) - float(counted)) >= policy.rate_seconds * 1000


async def first_in_line(store: Store, keys: PlatformKeys, policy: Policy) -> str | None:
    """A job that nothing of its own holds up: no order, no limit key, not on its last chance."""
    delivered = await last_delivered(store, keys)
    for band in BANDS:
        members = await store.command("ZRANGE", keys[f"front_{band}"], 0, 0)
        start = f"({'-'.join(map(str, delivered[band]))}" if band in delivered else "-"
        entries = await store.command("XRANGE", keys.jobs(band), start, "+", "COUNT", 1)
        for key in (*members, *(values[1] for _, values in entries)):
            try:
                record = await read_record(store, keys, key.decode(errors="replace"))
            except (JobNotFound, ValueError):
                continue
            if record.state is State.WAITING and not record.marks and record.crashes + 1 < policy.max_crashes:
                return record.key
    return None
