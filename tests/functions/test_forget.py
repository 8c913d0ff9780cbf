"""forget: ended jobs are kept for a time and up to a number; then no key of them is left."""

from typing import Any

import pytest

from tailrace.streams.errors import JobNotFound
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.options import Dedupe
from tailrace.streams.policies import Policy
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store, info_fields
from tests.support.builders import Desk, forget_scripts, untouched
from tests.support.eventually import eventually
from tests.support.flowing import signal, spawn

MINUTE = 60.0
HOUR = 3600.0


async def ended(desk: Desk, *keys: str, how: str = "completed", ago: float = 0.0, **options: Any) -> None:
    """Jobs that ended so many seconds ago."""
    for key in keys:
        await desk.submit(key, **options)
        if how == "cancelled":
            await desk.cancel(key)
        else:
            (held,) = await desk.claim()
            await (desk.complete(held) if how == "completed" else desk.fail(held))
        await age(desk, key, ago)


async def age(desk: Desk, key: str, ago: float) -> None:
    """As if the job had ended so many seconds earlier."""
    record = await desk.record(key)
    then = (record.ended_ms or 0) - round(ago * 1000)
    await desk.store.command("HSET", desk.keys.record(key), "ended_ms", then)
    for name in ("ended_failed", "ended_cancelled"):
        await desk.store.command("ZADD", desk.keys[name], "XX", then, key)
    await desk.store.command("ZADD", desk.keys["ended_kept"], "XX", "INCR", -round(ago * 1000), key)


async def forget(desk: Desk, most: int = 500, **rules: Any) -> int:
    """Remove at most so many; how many were removed."""
    (forgotten,) = await desk.transitions.forget([(desk.keys, Policy(**rules))], most)
    return forgotten.removed


async def forget_all(desk: Desk, most: int = 500, **rules: Any) -> int:
    """Remove what there is to remove, in calls for at most so many each; how many were removed."""
    removed, more, calls = 0, True, 0
    while more:
        (forgotten,) = await desk.transitions.forget([(desk.keys, Policy(**rules))], most)
        removed, more, calls = removed + forgotten.removed, forgotten.more, calls + 1
        assert calls < 100, "it comes to an end"
    return removed


async def kept(desk: Desk, *keys: str) -> list[str]:
    return [key for key in keys if await desk.store.command("EXISTS", desk.keys.record(key))]


async def keys_of_jobs(desk: Desk) -> list[str]:
    """Every key but those that a platform has whoever its jobs are."""
    shared = {desk.keys[name] for name in ("idle", "called", "events", "control", "jobs_normal", "beats")}
    return sorted({key.decode() for key in await desk.store.command("KEYS", "*")} - shared)


def test_the_defaults_are_those_of_the_seeds() -> None:
    policy = Policy()
    assert (policy.keep_completed_seconds, policy.keep_completed) == (3600, 100)
    assert (policy.keep_failed_seconds, policy.keep_failed) == (86_400, 0)


async def test_completed_jobs_go_after_an_hour_and_failed_ones_after_a_day(desk: Desk) -> None:
    await ended(desk, "old", ago=HOUR + 1)
    await ended(desk, "young", ago=HOUR - 60)
    for how in ("failed", "cancelled"):
        await ended(desk, f"{how}-old", how=how, ago=24 * HOUR + 1)
        await ended(desk, f"{how}-young", how=how, ago=24 * HOUR - 60)
    assert await forget(desk) == 3
    names = [f"{how}{which}" for how in ("", "failed-", "cancelled-") for which in ("old", "young")]
    assert await kept(desk, *names) == ["young", "failed-young", "cancelled-young"]
    async with untouched(desk.store):
        assert await forget(desk) == 0


async def test_more_than_so_many_go_oldest_first_but_none_of_the_last_minute(desk: Desk) -> None:
    keys = [f"job-{n}" for n in range(8)]
    for n, key in enumerate(keys):
        await ended(desk, key, ago=MINUTE * 2 if n < 5 else 0)
    assert await forget(desk, keep_completed=6) == 2
    assert await kept(desk, *keys) == keys[2:]
    assert await forget(desk, keep_completed=1) == 3
    assert await kept(desk, *keys) == keys[5:], "these ended less than a minute ago"
    assert await forget(desk, keep_completed=0) == 0, "any number"


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_failed_and_cancelled_jobs_may_have_a_number_too(desk: Desk, how: str) -> None:
    keys = [f"job-{n}" for n in range(5)]
    for n, key in enumerate(keys):
        await ended(desk, key, how=how, ago=MINUTE * (7 - n))
    assert await forget(desk) == 0
    assert await forget(desk, keep_failed=2) == 3
    assert await kept(desk, *keys) == keys[3:]


async def test_a_call_removes_no_more_than_it_is_told(desk: Desk) -> None:
    await ended(desk, *(f"job-{n}" for n in range(5)), ago=2 * HOUR)
    await ended(desk, *(f"failed-{n}" for n in range(5)), how="failed", ago=48 * HOUR)
    assert [await forget(desk, 4) for _ in range(4)] == [4, 4, 2, 0]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_a_job_may_be_kept_for_a_time_of_its_own(desk: Desk, how: str) -> None:
    await ended(desk, "short", how=how, keep_seconds=30, ago=31)
    await ended(desk, "long", how=how, keep_seconds=72 * HOUR, ago=48 * HOUR)
    await ended(desk, "none", how=how, keep_seconds=0)
    assert await forget(desk, keep_completed=1, keep_failed=1) == 2
    assert await kept(desk, "short", "long", "none") == ["long"]
    await age(desk, "long", 25 * HOUR)
    assert await forget(desk) == 1
    assert await keys_of_jobs(desk) == []


async def test_jobs_with_a_time_of_their_own_hide_no_other_that_is_to_go(desk: Desk) -> None:
    keys = [f"own-{n}" for n in range(150)]
    await desk.submit(*keys, keep_seconds=72 * HOUR)
    while claims := await desk.claim(slots=50):
        for held in claims:
            await desk.fail(held)
            await age(desk, held.key, 48 * HOUR)
    await ended(desk, "other", how="failed", ago=30 * HOUR)
    assert await forget(desk) == 1
    assert len(await kept(desk, *keys, "other")) == 150


@pytest.mark.parametrize("apart_ms", [1, 0], ids=["one after the other", "in the same moment"])
async def test_however_many_have_a_time_of_their_own_the_others_go(desk: Desk, apart_ms: int) -> None:
    keys = [f"own-{n}" for n in range(2500)]
    now = int((await desk.store.command("TIME"))[0]) * 1000
    scores = [(now - round(48 * HOUR) * 1000 + n * apart_ms, key) for n, key in enumerate(keys)]
    await desk.store.commands([("ZADD", desk.keys["ended_failed"], *score) for score in scores])
    await desk.store.commands([("ZADD", desk.keys["ended_kept"], now + 10**9, key) for key in keys])
    await ended(desk, "other", "another", how="failed", ago=30 * HOUR)
    assert await forget(desk, 1) == 0, "a look past all of them takes several calls"
    assert await forget_all(desk, 1) == 2
    await ended(desk, "late", how="failed", ago=36 * HOUR)
    assert await forget_all(desk, 1) == 1, "and then it begins anew"
    assert await kept(desk, "other", "another", "late") == []
    assert await desk.store.command("ZCARD", desk.keys["ended_failed"]) == 2500


@pytest.mark.parametrize("how", ["failed", "cancelled"])
@pytest.mark.parametrize("own_first", [True, False])
async def test_jobs_with_a_time_of_their_own_do_not_count_among_the_others(
    desk: Desk, how: str, own_first: bool
) -> None:
    own, plain = [f"own-{n}" for n in range(8)], [f"plain-{n}" for n in range(3)]
    await ended(desk, *own, how=how, keep_seconds=72 * HOUR, ago=HOUR if own_first else MINUTE * 2)
    await ended(desk, *plain, how=how, ago=MINUTE * 2 if own_first else HOUR)
    assert await forget(desk, keep_failed=5) == 0
    assert await forget(desk, keep_failed=3) == 0
    assert await forget(desk, keep_failed=2) == 1
    assert await kept(desk, *own, *plain) == [*own, *plain[1:]]


async def test_where_too_many_have_a_time_of_their_own_rather_too_many_are_kept(desk: Desk) -> None:
    now = int((await desk.store.command("TIME"))[0]) * 1000
    own = [f"own-{n}" for n in range(2001)]
    for name, score in (("ended_failed", now - 120_000), ("ended_kept", now + 10**9)):
        pairs = [word for key in own for word in (score, key)]
        await desk.store.command("ZADD", desk.keys[name], *pairs)
    await ended(desk, *(f"plain-{n}" for n in range(3)), how="failed", ago=HOUR)
    assert await forget(desk, keep_failed=2) == 1
    await desk.store.command("ZADD", desk.keys["ended_kept"], now + 10**9, "a completed one")
    assert await forget(desk, keep_failed=1) == 0, "it cannot be told apart from those that failed"
    assert await forget(desk, keep_failed_seconds=HOUR / 2) == 2, "but old ones go"


@pytest.mark.parametrize("future", [1, 1500])
async def test_jobs_that_ended_while_the_clock_was_ahead_hold_up_nobody(desk: Desk, future: int) -> None:
    now = int((await desk.store.command("TIME"))[0]) * 1000
    jumped, old = [f"jumped-{n}" for n in range(future)], [f"old-{n}" for n in range(20)]
    for keys, ended_ms in ((jumped, now + 86_400_000), (old, now - 7_200_000)):
        await desk.store.commands([("HSET", desk.keys.record(key), "ended_ms", ended_ms) for key in keys])
        await desk.store.command("RPUSH", desk.keys["ended_completed"], *keys)
    rules = {"keep_completed": 0}
    assert await forget_all(desk, 60, **rules) == 20
    assert await kept(desk, jumped[0], *old) == [jumped[0]]
    for key in jumped:
        await desk.store.command("HINCRBY", desk.keys.record(key), "ended_ms", -3_600_001)
    assert await forget_all(desk, 60, **rules) == future, "they are kept for an hour from then on"


async def test_many_that_ended_in_one_moment_hide_no_other_of_that_moment(desk: Desk) -> None:
    then = int((await desk.store.command("TIME"))[0]) * 1000 - round(48 * HOUR) * 1000
    own = [f"a-{n}" for n in range(1100)]
    await desk.store.commands([("ZADD", desk.keys["ended_failed"], then, key) for key in [*own, "z"]])
    await desk.store.commands([("ZADD", desk.keys["ended_kept"], then + 10**12, key) for key in own])
    assert await forget_all(desk) == 1
    assert await desk.store.command("ZSCORE", desk.keys["ended_failed"], "z") is None


@pytest.mark.parametrize("mode", ["until_done", "throttle", "debounce"])
@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_no_key_of_a_forgotten_job_is_left(desk: Desk, how: str, mode: str) -> None:
    options: dict[str, Any] = {"order_key": "o", "limit_key": "l", "expires_at": "2099-01-01T00:00:00Z"}
    options["dedupe"] = Dedupe("d", mode, HOUR if mode == "throttle" else None)  # type: ignore[arg-type]
    if mode == "debounce":
        options["delay_seconds"] = HOUR
    await desk.submit("a", args=b'"' + b"x" * 9000 + b'"', **options)
    if how == "cancelled":
        await desk.cancel("a")
    else:
        await desk.past_due("a")
        (held,) = await desk.claim()
        await desk.report(held, 1)
        await (desk.complete(held) if how == "completed" else desk.fail(held))
    await age(desk, "a", 48 * HOUR)
    assert await forget(desk) == 1
    assert await keys_of_jobs(desk) == []
    with pytest.raises(JobNotFound):
        await desk.record("a")


async def test_jobs_that_have_not_ended_are_never_removed(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("parked-head", "parked", limit_key="l")
    await desk.submit("running", "released", "retried")
    await desk.submit("delayed", delay_seconds=HOUR)
    await desk.submit("waiting")
    _, running, released, retried = await desk.claim(slots=4)
    await desk.release(released)
    await desk.fail(retried, attempts=9, seconds=HOUR)
    strict: dict[str, Any] = {
        "keep_completed_seconds": 0.0,
        "keep_completed": 1,
        "keep_failed_seconds": 0.0,
        "keep_failed": 1,
    }
    async with untouched(store):
        assert await forget(desk, **strict) == 0
    await desk.complete(running)
    assert await forget(desk, **strict) == 1


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_reopened_job_is_not_forgotten_by_its_old_end(desk: Desk, how: str) -> None:
    await ended(desk, "a", how=how, keep_seconds=1, ago=HOUR)
    assert await desk.transitions.reopen(desk.keys, "a") == "ok"
    assert await forget(desk, keep_failed_seconds=0.0) == 0
    (held,) = await desk.claim()
    assert await forget(desk, keep_failed_seconds=0.0) == 0
    await desk.complete(held)
    assert (await desk.record("a")).state is State.COMPLETED
    assert await forget(desk) == 0, "its time begins with its new end"
    await age(desk, "a", 2)
    assert await forget(desk) == 1
    assert await keys_of_jobs(desk) == []


async def test_the_key_of_a_newer_job_is_left_alone(desk: Desk) -> None:
    await ended(desk, "a", how="failed", ago=48 * HOUR, dedupe=Dedupe("d"))
    await desk.submit("b", dedupe=Dedupe("d"))
    assert await forget(desk) == 1
    assert await desk.submit("c", dedupe=Dedupe("d")) == [["duplicate", "b", "waiting"]]


async def test_what_was_removed_or_made_corrupt_by_hand_holds_up_nobody(desk: Desk) -> None:
    await ended(desk, "gone", "corrupt", "fine", ago=2 * HOUR)
    await desk.store.command("DEL", desk.keys.record("gone"))
    await desk.store.command("SET", desk.keys.record("corrupt"), "x")
    assert await forget(desk) == 3
    assert await keys_of_jobs(desk) == []


async def test_several_platforms_in_one_call_each_by_its_own_rules(desk: Desk, shop: Desk) -> None:
    await ended(desk, "a", ago=HOUR / 2)
    await ended(shop, "b", ago=HOUR / 2)
    rules = [(desk.keys, Policy(keep_completed_seconds=60)), (shop.keys, Policy())]
    await forget_scripts(desk.store)
    assert [each.removed for each in await desk.transitions.forget(rules)] == [1, 0]


async def test_a_corrupt_list_is_an_error_of_its_own(desk: Desk) -> None:
    await desk.store.command("SET", PlatformKeys("shop")["ended_completed"], "x")
    with pytest.raises(BrokenOperation, match="WRONGTYPE"):
        await forget(desk)


async def test_the_live_feed_keeps_its_last_minute(desk: Desk) -> None:
    """It is for whoever listens right now; all it says stands in the histories."""
    old = await desk.store.command("XADD", desk.keys["events"], "1-1", "gone 2", "")
    await desk.start("a")
    await forget(desk)
    entries = [entry for entry, _ in await desk.store.command("XRANGE", desk.keys["events"], "-", "+")]
    assert old not in entries
    assert len(entries) == 1


async def test_jobs_with_many_steps_are_freed_in_the_background(desk: Desk) -> None:
    """A call that removes hundreds of them would stop the server for long."""
    await ended(desk, "a", ago=2 * HOUR)
    steps = (word for number in range(200) for word in (f"step-{number}", "1" * 100))
    await desk.store.command("HSET", desk.keys.steps("a"), *steps)
    await desk.store.command("CONFIG", "RESETSTAT")
    assert await forget(desk) == 1

    async def freed() -> bool:
        return info_fields(await desk.store.command("INFO", "memory"))["lazyfreed_objects"] != "0"

    await eventually("the steps are freed", freed)


async def test_a_parent_takes_its_children_and_signals_along(desk: Desk) -> None:
    held = await desk.start("p")
    await spawn(desk, held, "kurly.c")
    await signal(desk, "p", "go")
    await desk.complete(held)
    keys = (desk.keys.children("p"), desk.keys.signals("p"))
    assert await desk.store.command("EXISTS", *keys) == 2
    await desk.transitions.forget([(desk.keys, Policy(keep_completed_seconds=0))])
    assert await desk.store.command("EXISTS", *keys) == 0
