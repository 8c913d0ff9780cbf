"""tick: the job of a tick comes in line once, together with the schedule's move to its next tick."""

import asyncio
from typing import Any

import pytest

from tailrace.streams.errors import StoreFull
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.options import Dedupe
from tailrace.streams.schedules import Move, mark_of
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import Tick
from tests.support.builders import Desk, forget_scripts, untouched

DEFINITION = b'{"name":"n"}'
MARK = mark_of(DEFINITION)


def ticking(desk: Desk, move: Move, *, name: str = "n", mark: str = MARK, **options: Any) -> Tick:
    key = f"{name}-{move.tick_ms if move.fires_ms is None else move.fires_ms}"
    return Tick(name, mark, move, desk.job(key, args=b'{"steps":1}', **options), "print")


async def fire(desk: Desk, move: Move, **more: Any) -> list[str]:
    (answer,) = await desk.transitions.tick(desk.keys, [ticking(desk, move, **more)])
    assert isinstance(answer, list)
    return answer


async def tick_of(desk: Desk, name: str = "n") -> float | None:
    score = await desk.store.command("ZSCORE", desk.keys["ticks"], name)
    return None if score is None else float(score)


@pytest.fixture
async def scheduled(desk: Desk) -> Desk:
    """A schedule `n` that stands at 1000."""
    await desk.transitions.schedule(desk.keys, "n", "", DEFINITION, 1000)
    return desk


async def test_a_tick_brings_its_job_and_moves_on(scheduled: Desk) -> None:
    assert await fire(scheduled, Move(1000, 1000, 2000)) == ["accepted", "waiting"]
    assert await tick_of(scheduled) == 2000
    (held,) = await scheduled.claim()
    assert (held.key, held.args) == ("n-1000", b'{"steps":1}')


async def test_the_same_tick_fires_once(scheduled: Desk) -> None:
    await fire(scheduled, Move(1000, 1000, 2000))
    async with untouched(scheduled.store):
        assert await fire(scheduled, Move(1000, 1000, 2000)) == ["passed"]


async def test_many_at_the_same_moment_fire_a_tick_once(scheduled: Desk, store: Store) -> None:
    answers = await asyncio.gather(*(fire(scheduled, Move(1000, 1000, 2000)) for _ in range(20)))
    assert sorted(answers) == [["accepted", "waiting"], *[["passed"]] * 19]
    assert len(await scheduled.line()) == 1


async def test_several_ticks_of_one_schedule_fire_in_one_call(scheduled: Desk) -> None:
    moves = [Move(1000, 1000, 2000), Move(2000, 2000, 3000), Move(3000, 3000, 4000)]
    answers = await scheduled.transitions.tick(scheduled.keys, [ticking(scheduled, move) for move in moves])
    assert answers == [["accepted", "waiting"]] * 3
    assert await tick_of(scheduled) == 4000
    assert [held.key for held in await scheduled.claim(slots=3)] == ["n-1000", "n-2000", "n-3000"]


async def test_ticks_whose_times_come_again_after_the_clock_was_set_back_bring_jobs_again(scheduled: Desk) -> None:
    moves = [Move(1000, 1000, 2000), Move(2000, 2000, 3000)]
    for _ in range(3):
        await scheduled.store.command("ZADD", scheduled.keys["ticks"], 1000, "n")  # as `agenda` does then
        answers = await scheduled.transitions.tick(scheduled.keys, [ticking(scheduled, move) for move in moves])
        assert answers == [["accepted", "waiting"]] * 2
    jobs = [held.key for held in await scheduled.claim(slots=9)]
    assert len(set(jobs)) == 6
    assert all(key.startswith("n-") for key in jobs)


async def test_a_missed_tick_brings_no_job_and_moves_on(scheduled: Desk) -> None:
    assert await fire(scheduled, Move(1000, None, 9000)) == ["missed"]
    assert (await tick_of(scheduled), await scheduled.line()) == (9000, [])


async def test_a_schedule_without_another_tick_rests(scheduled: Desk) -> None:
    assert await fire(scheduled, Move(1000, 1000, None)) == ["accepted", "waiting"]
    assert await tick_of(scheduled) is None
    assert await scheduled.store.command("HEXISTS", scheduled.keys["schedules"], "n") == 1


async def test_a_schedule_that_was_changed_meanwhile_does_not_fire_as_it_was(scheduled: Desk) -> None:
    await scheduled.transitions.schedule(scheduled.keys, "n", MARK, b"{}", 1000, keep=True)
    async with untouched(scheduled.store):
        assert await fire(scheduled, Move(1000, 1000, 2000)) == ["passed"]


async def test_a_paused_schedule_does_not_fire(scheduled: Desk) -> None:
    await scheduled.transitions.unschedule(scheduled.keys, "n", MARK, DEFINITION)
    async with untouched(scheduled.store):
        assert await fire(scheduled, Move(1000, 1000, 2000)) == ["passed"]


async def test_a_removed_schedule_is_gone_and_leaves_no_tick(scheduled: Desk) -> None:
    await scheduled.store.command("HDEL", scheduled.keys["schedules"], "n")
    assert await fire(scheduled, Move(1000, 1000, 2000)) == ["gone"]
    assert await scheduled.store.command("DBSIZE") == 0


async def test_a_schedule_goes_on_when_its_jobs_id_is_taken(scheduled: Desk) -> None:
    await scheduled.submit("n-1000")
    assert await fire(scheduled, Move(1000, 1000, 2000)) == ["conflict"]
    assert await tick_of(scheduled) == 2000


async def test_a_schedule_goes_on_when_its_jobs_record_is_corrupt(scheduled: Desk) -> None:
    await scheduled.store.command("SET", scheduled.keys.record("n-1000"), "corrupt")
    answer = await fire(scheduled, Move(1000, 1000, 2000))
    assert answer[0] == "refused"
    assert "WRONGTYPE" in answer[1]
    assert await tick_of(scheduled) == 2000


async def test_a_corrupt_platform_is_told_as_broken(desk: Desk) -> None:
    await desk.store.command("SET", desk.keys["schedules"], "corrupt")
    (answer,) = await desk.transitions.tick(desk.keys, [ticking(desk, Move(1000, 1000, 2000))])
    assert isinstance(answer, BrokenOperation)


async def test_the_job_of_a_tick_follows_the_rules_of_submit(scheduled: Desk) -> None:
    assert await fire(scheduled, Move(1000, 1000, 2000), delay_seconds=60.0, order_key="o") == ["accepted", "delayed"]
    assert (await scheduled.record("n-1000")).state is State.DELAYED


async def test_jobs_of_a_schedule_that_must_not_overlap_do_not(scheduled: Desk) -> None:
    alone = Dedupe("alone")
    assert await fire(scheduled, Move(1000, 1000, 2000), dedupe=alone) == ["accepted", "waiting"]
    assert await fire(scheduled, Move(2000, 2000, 3000), dedupe=alone) == ["duplicate", "n-1000", "waiting"]
    (held,) = await scheduled.claim()
    await scheduled.complete(held)
    assert await fire(scheduled, Move(3000, 3000, 4000), dedupe=alone) == ["accepted", "waiting"]


async def test_a_full_store_refuses_the_tick_and_the_schedule_stays(store: Store, scheduled: Desk) -> None:
    await store.command("SET", "filler", b"x" * 2_000_000)
    await store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        async with untouched(store):
            with pytest.raises(StoreFull):
                await fire(scheduled, Move(1000, 1000, 2000))
    finally:
        await store.command("CONFIG", "SET", "maxmemory", "0")
    assert await fire(scheduled, Move(1000, 1000, 2000)) == ["accepted", "waiting"]


async def test_a_tick_fires_after_the_server_forgot_the_script(scheduled: Desk) -> None:
    await forget_scripts(scheduled.store)
    assert await fire(scheduled, Move(1000, 1000, 2000)) == ["accepted", "waiting"]
