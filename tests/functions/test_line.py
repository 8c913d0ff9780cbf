"""line: who stands in line, and that claims start them in the order foreseen."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from streams.connection import Store
from streams.keys import BANDS
from streams.line import text, turns
from streams.messages import Claim
from streams.transitions import BrokenOperation
from tests.support.builders import Desk, untouched

HOUR = 3600.0


async def foreseen(desk: Desk, **bounds: int) -> list[str]:
    return turns(await desk.transitions.line(desk.keys, desk.policy, **bounds), desk.policy)


async def play(desk: Desk, held: list[Claim]) -> list[str]:
    """Start all that can be started, one at a time; when nothing more can, whoever began first ends."""
    started = []
    while True:
        if desk.overall and len(held) >= desk.overall:
            await desk.complete(held.pop(0))
        elif claims := await desk.claim() or await desk.claim():  # the first may have called others to the front
            started.append(claims[0].key)
            held += claims
        elif held:
            await desk.complete(held.pop(0))
        else:
            return started


async def test_the_front_comes_first_and_then_band_by_band(desk: Desk) -> None:
    held = await desk.start("released")
    for band in reversed(BANDS):
        await desk.submit(f"{band}-1", f"{band}-2", band=band)
    await desk.submit("pushed", band="low", first=True)
    await desk.release(held)
    expected = ["pushed", "released", *(f"{band}-{number}" for band in BANDS for number in (1, 2))]
    assert await foreseen(desk) == expected
    desk.policy = replace(desk.policy, share=0)
    assert await play(desk, []) == expected


async def test_what_rests_or_has_ended_does_not_stand_in_line(desk: Desk) -> None:
    await desk.submit("a", "gone", "b")
    await desk.submit("later", delay_seconds=HOUR)
    await desk.submit("c", "due", "first", band="low")
    await desk.cancel("gone")
    await desk.submit("soon", delay_seconds=HOUR, band="low")
    await desk.past_due("soon")
    await desk.submit("pushed", first=True)
    assert await foreseen(desk) == ["pushed", "soon", "a", "b", "c", "due", "first"]
    assert await play(desk, []) == ["pushed", "soon", "a", "b", "c", "due", "first"]


async def test_looking_changes_nothing(store: Store) -> None:
    desk = Desk(store, key_overall=1, key_rate=5, rate=3)
    await desk.submit("a", "b", "c", limit_key="l", order_key="o")
    await desk.submit("d", delay_seconds=HOUR)
    await desk.claim("ann", 3)
    async with untouched(store):
        await foreseen(desk)


async def test_a_line_that_nobody_used_is_empty(desk: Desk) -> None:
    line = await desk.transitions.line(desk.keys, desk.policy)
    assert (line.standing, line.running, line.whole, line.paused, line.took_ms) == ({}, (), True, None, ())


async def test_a_long_line_is_looked_at_so_far_and_no_further(desk: Desk) -> None:
    await desk.submit(*(f"j{number}" for number in range(2500)), args=b"x" * 100)
    line = await desk.transitions.line(desk.keys, desk.policy)
    assert (len(line.standing), line.whole) == (1000, False)
    line = await desk.transitions.line(desk.keys, desk.policy, 5000)
    assert (len(line.standing), line.whole) == (2500, True)
    await desk.submit(*(f"wide{number}" for number in range(900)), band="urgent", args=b"x" * 8000)
    line = await desk.transitions.line(desk.keys, desk.policy, 5000)
    assert (len(line.standing), line.whole) == (600, False), "their args come along, up to 4 MB"


async def test_one_that_was_called_before_it_was_handed_out_comes_in_its_turn(desk: Desk) -> None:
    await desk.submit("a", order_key="o")
    (held,) = await desk.claim()
    await desk.submit(*(f"j{number}" for number in range(1200)))
    await desk.submit("b", order_key="o")
    await desk.complete(held)
    assert await desk.front() == ["b"]
    assert (await foreseen(desk))[:2] == ["j0", "j1"]
    assert [claim.key for claim in await desk.claim("ann", 2)] == ["j0", "j1"]


async def test_a_limit_that_was_raised_calls_those_that_wait_for_it(store: Store) -> None:
    desk = Desk(store, key_overall=1)
    await desk.submit("a", "b", "c", "d", limit_key="l")
    held = await desk.claim("ann", 9)
    await desk.submit("plain", "e", limit_key="l")
    desk.policy = replace(desk.policy, key_overall=9)
    expected = await foreseen(desk)
    assert expected == await play(desk, held)


async def test_a_called_job_that_may_not_go_on_lets_another_go(store: Store) -> None:
    desk = Desk(store, key_overall=1)
    await desk.submit("slow", limit_key="l")
    held = await desk.claim()
    await desk.submit("first", "second", limit_key="l", order_key="o")
    await desk.submit("other", limit_key="l")
    assert await desk.claim("ann", 9) == []
    await desk.store.command("ZADD", desk.keys.order("o"), 0, "resting")  # it was passed, and is back at its place
    await desk.submit("one", "two")
    desk.policy, desk.overall = replace(desk.policy, overall=1), 1
    expected = await foreseen(desk)
    assert expected == ["one", "other", "two"]
    assert await play(desk, held) == expected


async def test_when_a_running_job_began_is_known_after_its_first_report_too(desk: Desk) -> None:
    first, second = await desk.start("a"), await desk.start("b")
    await desk.report(first, 1)
    line = await desk.transitions.line(desk.keys, desk.policy)
    assert [job.key for job in line.running] == ["a", "b"]
    record = await desk.record("a")
    assert line.running[0].started_ms == record.started_ms
    await desk.complete(second)
    (took_ms,) = (await desk.transitions.line(desk.keys, desk.policy)).took_ms
    assert 0 <= took_ms < 60_000


async def test_a_destroyed_group_begins_at_the_head_again_and_so_do_we(desk: Desk) -> None:
    await desk.submit("a", "b", "c")
    await desk.claim()
    await desk.destroy_groups()
    assert await foreseen(desk) == ["b", "c"]


async def test_a_spoilt_key_is_an_error_of_its_own(desk: Desk, store: Store) -> None:
    await desk.submit("a")
    await store.command("SET", desk.keys["front"], "x")
    with pytest.raises(BrokenOperation):
        await foreseen(desk)


async def test_a_spoilt_job_is_passed_over(desk: Desk, store: Store) -> None:
    await desk.submit("a", "spoilt", "b")
    await store.command("DEL", desk.keys.record("spoilt"))
    await store.command("SET", desk.keys.record("spoilt"), "x")
    await store.command("HSET", desk.keys["leases"], "n", "nonsense")
    assert await foreseen(desk) == ["a", "b"]


async def test_of_hundreds_that_run_all_are_counted_and_some_looked_at(desk: Desk) -> None:
    await desk.submit(*(f"j{number}" for number in range(450)))
    await desk.claim("ann", 200)
    line = await desk.transitions.line(desk.keys, desk.policy)
    assert (line.runs, len(line.running)) == (200, 200)
    await desk.claim("ann", 250)
    line = await desk.transitions.line(desk.keys, desk.policy)
    assert line.runs == 450
    assert 50 < len(line.running) <= 200
    assert len({job.key for job in line.running}) == len(line.running)


@pytest.mark.parametrize("lowered", [0, 3])
async def test_starts_that_no_longer_count_are_free_again(store: Store, lowered: int) -> None:
    """Against counting them one by one, of lists of every length and age."""
    rate, minute_ms = 7, 60_000
    desk = Desk(store, key_rate=rate - lowered, key_rate_seconds=60.0)
    now_ms = int((await store.command("TIME"))[0]) * 1000
    for length in range(rate + 1):
        for old in range(length + 1):
            label = f"l{length}-{old}"
            await desk.submit(label, limit_key=label)
            ages = [2 * minute_ms] * old + [minute_ms // 2] * (length - old)
            if ages:
                await store.command("RPUSH", desk.keys.starts(label), *(now_ms - age for age in ages))
    line = await desk.transitions.line(desk.keys, desk.policy)
    most = rate - lowered
    for length in range(rate + 1):
        for old in range(length + 1):
            counted = min(length, most, length - old)
            assert line.limits[f"l{length}-{old}"].free == most - counted, (length, old)


async def test_long_lists_of_starts_are_not_read_as_a_whole(store: Store) -> None:
    desk = Desk(store, key_rate=50_000, key_rate_seconds=HOUR)
    now_ms = int((await store.command("TIME"))[0]) * 1000
    await desk.submit("a", limit_key="l")
    await store.command("RPUSH", desk.keys.starts("l"), *([now_ms - 2 * 3_600_000] * 20_000 + [now_ms] * 20_000))
    before = await calls_of(store, "lrange", "lindex")
    assert (await desk.transitions.line(desk.keys, desk.policy)).limits["l"].free == 30_000
    assert await calls_of(store, "lrange", "lindex") - before < 25


async def calls_of(store: Store, *commands: str) -> int:
    told = dict(
        line.split(":", 1) for line in text(await store.command("INFO", "commandstats")).splitlines() if ":" in line
    )
    return sum(int(told.get(f"cmdstat_{name}", "calls=0,").split(",")[0].removeprefix("calls=")) for name in commands)


async def test_a_count_that_was_spoilt_hangs_nobody(store: Store) -> None:
    desk = Desk(store, key_overall=1)
    await store.command("HSET", desk.keys["limits"], "l", 1)
    await desk.submit("a", "b", limit_key="l")
    await desk.submit("plain")
    assert [claim.key for claim in await desk.claim("ann", 9)] == ["plain"]
    await desk.submit("c", limit_key="l")
    assert await foreseen(desk) == ["a", "b", "c"]


def some_options(dice: Random) -> dict[str, Any]:
    options: dict[str, Any] = {"band": dice.choice(BANDS)}
    if dice.random() < 0.4:
        options["order_key"] = dice.choice("op")
    if dice.random() < 0.4:
        options["limit_key"] = dice.choice("lm")
    if dice.random() < 0.1:
        options["first"] = True
    elif dice.random() < 0.2:
        options["delay_seconds"] = HOUR
    return options


async def set_the_scene(desk: Desk, dice: Random) -> list[Claim]:
    """Some jobs everywhere a job may stand; those that run, oldest first."""
    held: list[Claim] = []
    for number in range(dice.randrange(2, 30)):
        await desk.submit(f"j{number}", **some_options(dice))
        chance = dice.random()
        if chance < 0.3:
            held += await desk.claim()
        elif chance < 0.5 and held:
            claim = held.pop(dice.randrange(len(held)))
            how = dice.choice(["complete", "release", "reclaim", "retry", "delay"])
            if how == "retry":
                await desk.fail(claim, attempts=9, seconds=HOUR)
            elif how == "delay":
                await desk.delay(claim, HOUR)
            else:
                await getattr(desk, how)(claim)
        elif chance < 0.6:
            await desk.cancel(f"j{dice.randrange(number + 1)}")
        elif chance < 0.7:
            await desk.past_due(f"j{dice.randrange(number + 1)}")
    return [claim for claim in held if (await desk.record(claim.key)).state == "running"]


async def test_claims_start_jobs_in_the_order_foreseen(store: Store, dice: Random) -> None:
    for number in range(40):
        await store.command("FLUSHALL")
        rules: dict[str, Any] = {"overall": dice.choice([0, 1, 2]), "key_overall": dice.choice([0, 1, 2])}
        if dice.random() < 0.3:
            rules |= {"key_rate": dice.choice([1, 2]), "key_rate_seconds": HOUR}
        desk = Desk(store, share=0, max_crashes=99, **rules)
        held = await set_the_scene(desk, dice)
        expected = await foreseen(desk)
        started = await play(desk, held)
        if "key_rate" in rules:  # those that wait for another hour come last
            expected = expected[: len(started)]
        assert started == expected, f"round {number}: {rules}"
