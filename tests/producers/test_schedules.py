"""The door for schedules: what is kept, what stays when it is kept again, and what is refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tailrace.producers.platforms import BUILT_IN
from tailrace.producers.schedules import LARGEST, Schedules, configured, job_of
from tailrace.streams.errors import BadConfiguration, ScheduleNotFound, StoreFull, WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.schedules import Planned, Schedule
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Transitions
from tailrace.streams.views.audit import read_audit
from tests.support.builders import untouched


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    async with Store(valkey_url) as store:
        yield store


@pytest.fixture
def schedules(store: Store) -> Schedules:
    return Schedules(Transitions(store), BUILT_IN)


def plan(**said: Any) -> Schedule:
    times = {} if "cron" in said else {"every_seconds": 3600.0}
    return Schedule(**{"name": "n", "platform": "kurly", "kind": "drill", **times, **said})


async def now_ms(store: Store) -> int:
    seconds, micros = await store.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def set_tick(store: Store, tick_ms: int) -> None:
    """As if no consumer had run since then."""
    await store.command("ZADD", PlatformKeys("kurly")["ticks"], tick_ms, "n")


async def test_a_schedule_is_kept_with_its_next_tick(store: Store, schedules: Schedules) -> None:
    before = await now_ms(store)
    planned = await schedules.upsert(plan())
    assert planned.schedule == plan()
    assert planned.next_ms is not None
    assert planned.next_ms % 3_600_000 == 0
    assert before < planned.next_ms <= before + 3_600_000
    assert await schedules.get("kurly", "n") == planned
    assert await schedules.list("kurly") == [planned]


async def test_the_same_definition_again_writes_nothing(store: Store, schedules: Schedules) -> None:
    await schedules.upsert(plan())
    await set_tick(store, 1000)
    async with untouched(store):
        assert await schedules.upsert(plan()) == Planned(plan(), 1000)


async def test_other_args_keep_the_tick_and_other_times_do_not(store: Store, schedules: Schedules) -> None:
    await schedules.upsert(plan())
    await set_tick(store, 1000)
    assert (await schedules.upsert(plan(args={"steps": 1}))).next_ms == 1000
    planned = await schedules.upsert(plan(every_seconds=60))
    assert planned.next_ms is not None
    assert planned.next_ms > await now_ms(store)


async def test_a_paused_schedule_has_no_tick_until_it_is_resumed(store: Store, schedules: Schedules) -> None:
    await schedules.upsert(plan())
    paused = await schedules.pause("kurly", "n")
    assert (paused.schedule.paused, paused.next_ms) == (True, None)
    assert await schedules.list() == [paused]
    async with untouched(store):
        assert await schedules.pause("kurly", "n") == paused
    resumed = await schedules.resume("kurly", "n")
    assert resumed.schedule == plan()
    assert resumed.next_ms is not None
    assert resumed.next_ms > await now_ms(store)
    async with untouched(store):
        assert await schedules.resume("kurly", "n") == resumed


async def test_a_schedule_that_somebody_paused_stays_paused_when_it_is_set_again(schedules: Schedules) -> None:
    await schedules.upsert(plan())
    await schedules.pause("kurly", "n")
    assert (await schedules.upsert(plan())).next_ms is None
    changed = await schedules.upsert(plan(every_seconds=60))
    assert (changed.schedule.paused, changed.next_ms) == (True, None)


async def test_a_schedule_may_begin_paused(schedules: Schedules) -> None:
    planned = await schedules.upsert(plan(paused=True))
    assert planned.next_ms is None
    assert await schedules.get("kurly", "n") == planned


async def test_a_removed_schedule_leaves_no_key_but_the_audit(store: Store, schedules: Schedules) -> None:
    await schedules.upsert(plan())
    await schedules.remove("kurly", "n")
    assert await store.command("KEYS", "*") == [b"tr:{kurly}:audit"]
    assert await schedules.list() == []


async def test_an_unknown_schedule_is_not_found(schedules: Schedules) -> None:
    for act in (schedules.get, schedules.pause, schedules.resume, schedules.remove):
        with pytest.raises(ScheduleNotFound, match="kurly has no schedule n"):
            await act("kurly", "n")


async def test_many_who_change_a_schedule_at_one_moment_leave_one_of_their_definitions(schedules: Schedules) -> None:
    wanted = [plan(args={"steps": n}) for n in range(10)]
    await asyncio.gather(*(schedules.upsert(one) for one in wanted), schedules.upsert(plan(paused=True)))
    kept = await schedules.get("kurly", "n")
    assert kept.schedule.paused, "it was not resumed"
    assert kept.next_ms is None


async def test_what_somebody_else_wrote_is_passed_over_and_can_be_replaced(store: Store, schedules: Schedules) -> None:
    await store.command("HSET", PlatformKeys("kurly")["schedules"], "n", "corrupt", "m", '{"name":"m"}')
    assert await schedules.list() == []
    with pytest.raises(ScheduleNotFound):
        await schedules.get("kurly", "n")
    await schedules.upsert(plan())
    assert [planned.schedule for planned in await schedules.list()] == [plan()]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"platform": "amazon"}, "platform"),
        ({"args": {"steps": -1}}, "args.steps"),
        ({"args": {"nonsense": 1}}, "args.nonsense"),
        ({"kind": "research"}, "args.query"),
        ({"kind": "own", "args": [1]}, "args"),
        ({"kind": "own", "args": {"text": "x" * LARGEST}}, "args"),
        ({"kind": "own", "args": {"text": "\ud800"}}, "args"),
    ],
)
async def test_a_wrong_schedule_names_its_field_and_makes_no_key(
    store: Store, schedules: Schedules, said: dict[str, Any], field: str
) -> None:
    with pytest.raises(WrongField) as refusal:
        await schedules.upsert(plan(**said))
    assert refusal.value.field == field
    assert await store.command("DBSIZE") == 0


async def test_questions_about_an_unknown_platform_name_it(schedules: Schedules) -> None:
    for question in (schedules.list("amazon"), schedules.get("amazon", "n"), schedules.remove("amazon", "n")):
        with pytest.raises(WrongField, match="platform"):
            await question
    with pytest.raises(WrongField, match="name"):
        await schedules.get("kurly", "a b")


async def test_a_full_store_still_lets_schedules_rest(store: Store, schedules: Schedules) -> None:
    await schedules.upsert(plan())
    await store.command("SET", "filler", b"x" * 2_000_000)
    await store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        assert (await schedules.upsert(plan())).next_ms, "it is kept already"
        with pytest.raises(StoreFull):
            await schedules.upsert(plan(name="other"))
        await schedules.pause("kurly", "n")
        await schedules.remove("kurly", "n")
    finally:
        await store.command("CONFIG", "SET", "maxmemory", "0")


def test_the_job_of_a_tick_is_the_same_whoever_makes_it() -> None:
    one = job_of(plan(kind="own", args={"a": 1, "b": 2}), 1000)
    assert one[0].id == "kurly.n-1000"
    assert one[1] == job_of(plan(kind="own", args={"b": 2, "a": 1}), 1000)[1]


def test_a_schedule_of_the_configuration_file_with_wrong_args_is_named() -> None:
    wrong = plan(name="nightly", args={"steps": -1})
    with pytest.raises(BadConfiguration, match=r"schedule nightly: .*args\.steps"):
        configured([wrong], BUILT_IN, ["kurly"])
    assert configured([wrong], BUILT_IN, ["ably"]) == [], "it is not for us to do"


async def test_who_changed_a_schedule_is_kept(schedules: Schedules, store: Store) -> None:
    await schedules.upsert(plan(), by="ann")
    await schedules.upsert(plan(), by="bob")  # nothing changed
    await schedules.pause("kurly", "n", by="bob")
    await schedules.pause("kurly", "n", by="ann")
    await schedules.resume("kurly", "n")
    await schedules.remove("kurly", "n", by="cid")
    with pytest.raises(ScheduleNotFound):
        await schedules.remove("kurly", "n", by="dan")
    acts = (await read_audit(store, ["kurly"])).acts
    assert [(act.act, act.by) for act in reversed(acts)] == [
        ("schedule", "ann"),
        ("pause-schedule", "bob"),
        ("resume-schedule", None),
        ("remove-schedule", "cid"),
    ]
    assert {act.more["schedule"] for act in acts} == {"n"}
