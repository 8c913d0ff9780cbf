"""wake: what is due comes in line and what has expired ends, also while nobody claims."""

import time
from datetime import UTC, datetime

from tailrace.streams.states import State
from tests.support.builders import Desk, forget_scripts, untouched

HOUR = 3600.0


async def wake(desk: Desk) -> int:
    return await desk.transitions.wake([(desk.keys, desk.policy)])


def at(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


async def test_a_delayed_job_stays_until_its_time_and_then_comes_to_the_front(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=HOUR)
    async with untouched(desk.store):
        assert await wake(desk) == 0
    await desk.past_due("a")
    await desk.asleep("zoe")
    assert await wake(desk) == 1
    assert await desk.called() == ["zoe"]
    assert (await desk.record("a")).state is State.WAITING
    assert await desk.front() == ["a"]
    assert [held.key for held in await desk.claim()] == ["a"]
    assert await desk.story("a") == ["queued", "delayed", "started 1"]


async def test_jobs_that_wake_together_start_in_the_order_of_their_acceptance(desk: Desk) -> None:
    for key in ("c", "a", "b"):
        await desk.submit(key, delay_seconds=HOUR)
    await desk.past_due("a", "b", "c")
    assert await wake(desk) == 3
    assert [held.key for held in await desk.claim(slots=3)] == ["c", "a", "b"]


async def test_a_job_between_two_attempts_wakes_too(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, attempts=3, seconds=HOUR)
    await desk.past_due("a")
    await wake(desk)
    assert [again.number for again in await desk.claim()] == [2]


async def test_a_job_that_was_not_started_in_time_ends_failed(desk: Desk) -> None:
    await desk.submit("a", expires_at="2020-02-29T12:00:00.250Z")
    assert await wake(desk) == 1
    assert await desk.story("a") == ["queued", "failed"]
    last = (await desk.history("a"))[-1]
    assert last.error is not None
    assert (last.reason, last.error.type, last.expiresAt) == ("expired", "Expired", "2020-02-29T12:00:00.250Z")
    assert await desk.line() == []
    assert await desk.store.command("ZRANGE", desk.keys["ended_failed"], 0, -1) == [b"a"]
    assert await desk.claim() == []


async def test_a_delayed_job_expires_as_well(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=HOUR, expires_at=at(-1))
    assert await wake(desk) == 1
    assert await desk.story("a") == ["queued", "delayed", "failed"]
    assert await desk.store.command("ZCARD", desk.keys["due"]) == 0


async def test_a_job_that_started_in_time_does_not_expire(desk: Desk) -> None:
    await desk.submit("a", "b", expires_at=at(HOUR))
    first, second = await desk.claim(slots=2)
    await desk.fail(second, attempts=3, seconds=HOUR)
    for key in ("a", "b"):
        await desk.store.command("ZADD", desk.keys["alarms"], "XX", 1, f"!{key}")
    assert await wake(desk) == 2
    assert await desk.complete(first) == "ok"
    assert (await desk.record("b")).state is State.DELAYED


async def test_a_claim_ends_what_has_expired_before_it_takes_anything(desk: Desk) -> None:
    await desk.submit("a", expires_at=at(-1))
    await desk.submit("b")
    assert [held.key for held in await desk.claim(slots=2)] == ["b"]
    assert (await desk.record("a")).state is State.FAILED


async def test_no_more_than_twenty_wake_at_a_time(desk: Desk) -> None:
    keys = [f"job-{number}" for number in range(30)]
    await desk.submit(*keys, delay_seconds=HOUR)
    await desk.past_due(*keys)
    assert [await wake(desk) for _ in range(3)] == [20, 10, 0]


async def test_no_claim_starts_what_has_expired_however_many_there_are(desk: Desk) -> None:
    await desk.submit(*(f"job-{number}" for number in range(50)), expires_at=at(-1))
    await desk.submit("b")
    claimed = [held.key for _ in range(4) for held in await desk.claim(slots=3)]
    assert claimed == ["b"]


async def test_what_was_left_behind_of_a_job_that_is_gone_wakes_nobody(desk: Desk) -> None:
    await desk.store.command("ZADD", desk.keys["due"], 1, "gone")
    await desk.store.command("ZADD", desk.keys["alarms"], 1, "!gone")
    assert await wake(desk) == 2
    assert await desk.front() == []
    assert await wake(desk) == 0


async def test_it_wakes_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=HOUR)
    await desk.past_due("a")
    await forget_scripts(desk.store)
    assert await wake(desk) == 1
