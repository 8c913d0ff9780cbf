"""No call takes over 5 ms of the store: with 10,000 running jobs and 300 consumers, and where there is most to do.

Calls are measured by the elements that they look at and the commands that they run, because those are the same on every
machine. `tests/bench/bounds.py` measures the milliseconds.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tailrace.consumers.heart.heartbeat import MOST_HELD
from tailrace.ops.doctor.way_forward import check_gates
from tailrace.streams.schedules import read_schedules
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store, info_fields
from tailrace.streams.views.census import take_census
from tailrace.streams.views.listing import list_jobs
from tailrace.streams.views.presence import Presence
from tests.functions.worst_calls import WORST, Worst
from tests.support.builders import Desk
from tests.support.crowd import FILL, OWNERS, RUNNING
from tests.support.work import elements

MOST_COMMANDS = 650  # in one call: each takes some microseconds
MANY = 5000  # limit keys, orders, schedules
MOST_ELEMENTS = 1000  # that one call looks at, however many there are


@pytest.fixture
async def crowd(desk: Desk) -> Desk:
    await desk.store.command("EVAL", FILL, 0, desk.keys.prefix, RUNNING, OWNERS)
    return desk


@pytest.mark.usefixtures("single_server")
async def test_no_call_about_10_000_running_jobs_of_300_consumers_looks_at_many(crowd: Desk) -> None:
    store, keys, transitions = crowd.store, crowd.keys, crowd.transitions
    owner = "research.host.7.0123456789abcdef"
    nonces = [word.decode() for word in await store.command("SMEMBERS", keys.holds(owner))]
    for name in ("limits", "orders", "schedules"):
        await store.command("HSET", keys[name], "shop", 7, *(word for n in range(MANY) for word in (f"x-{n}", n)))
    presence = Presence(transitions, [keys.platform], patience_seconds=0.0)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "beat": lambda: transitions.beat([(keys, nonces)], owner),
        "beat that finds strays": lambda: transitions.beat([(keys, nonces[1:])], owner),
        "observe": lambda: transitions.observe([keys]),
        "holdings": lambda: transitions.holdings(keys, owner),
        "enlist": lambda: transitions.enlist([(keys, 0)]),
        "bury": lambda: transitions.bury(keys, owner, "no such counter"),
        "schedules": lambda: read_schedules(store, [keys]),
        "gates": lambda: check_gates(store, keys, []),
        "tidy a limit key": lambda: transitions.tidy(keys, "limit", "shop", act=True),
        "line": lambda: transitions.line(keys, f"job-{RUNNING - 1}", crowd.policy),
        "census": lambda: take_census(store, [keys.platform]),
        "running jobs": lambda: list_jobs(store, keys, State.RUNNING, 100, ""),
        "consumers": presence.see,
        "jobs of consumers": presence.jobs,
    }
    looked_at = {name: await elements(store, call) for name, call in calls.items()}
    assert {name: count for name, count in looked_at.items() if not 0 < count <= MOST_ELEMENTS} == {}


@pytest.mark.usefixtures("single_server")
async def test_a_full_consumer_names_its_jobs_in_portions(desk: Desk) -> None:
    """One process holds at most about 7,000."""
    await desk.store.command("EVAL", FILL, 0, desk.keys.prefix, 7000, 1)
    owner = "research.host.0.0123456789abcdef"
    nonces = [word.decode() for word in await desk.store.command("SMEMBERS", desk.keys.holds(owner))]
    portion = nonces[:MOST_HELD]
    assert await elements(desk.store, lambda: desk.transitions.beat([(desk.keys, portion)], owner)) <= MOST_ELEMENTS


async def commands(store: Store, call: Awaitable[Any]) -> int:
    """How many commands the server runs for a call, those of its scripts included."""
    await store.command("CONFIG", "RESETSTAT")
    await call
    stats = info_fields(await store.command("INFO", "commandstats"))
    ours = (value for name, value in stats.items() if not name.startswith("cmdstat_config"))
    return sum(int(value.partition("calls=")[2].partition(",")[0]) for value in ours)


@pytest.mark.parametrize("worst", WORST, ids=lambda worst: worst.__name__.replace("_", " "))
async def test_a_call_with_much_to_do_runs_a_bounded_number_of_commands(desk: Desk, worst: Worst) -> None:
    call = await worst(desk)
    assert 0 < await commands(desk.store, call) <= MOST_COMMANDS


async def test_an_old_feed_is_removed_in_several_calls(desk: Desk) -> None:
    entry = [word for n in range(60) for word in (f"job-{n} 2", "x" * 200)]
    await desk.store.commands([("XADD", desk.keys["events"], f"{n}-1", *entry) for n in range(1, 301)])
    lengths = []
    more = True
    while more:
        (forgotten,) = await desk.transitions.forget([(desk.keys, desk.policy)])
        more = forgotten.more
        lengths.append(await desk.store.command("XLEN", desk.keys["events"]))
    assert lengths == [200, 100, 0, 0]
