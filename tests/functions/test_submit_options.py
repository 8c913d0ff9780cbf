"""submit: jobs that start later, expire, or are the same as one that is there."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tailrace.streams.messages import Job
from tailrace.streams.options import Dedupe, Options
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.support.builders import Desk, untouched
from tests.support.eventually import eventually

HOUR = 3600.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


async def ask(desk: Desk, key: str, mode: str = "until_done", args: bytes = b"{}", **options: Any) -> list[str]:
    """Submit a job under the de-duplication key `k`."""
    ttl = options.pop("ttl_seconds", None)
    dedupe = Dedupe(options.pop("dedupe", "k"), mode, ttl)  # type: ignore[arg-type]
    job = Job(desk.keys.platform, key, "drill", args, Options(dedupe=dedupe, **options))
    (answer,) = await desk.transitions.submit([(job, f"{mode}{args[:32].decode()}")])
    return answer


async def test_a_delayed_job_rests_with_its_args_until_it_is_due(desk: Desk) -> None:
    assert await desk.submit("a", args=b'{"steps":1}', delay_seconds=HOUR) == [["accepted", "delayed"]]
    assert await desk.submit("b", run_at=at(HOUR)) == [["accepted", "delayed"]]
    assert await desk.claim(slots=9) == []
    event = (await desk.history("a"))[-1]
    assert (event.status, event.until is not None) == ("delayed", True)
    await desk.past_due("a")
    (held,) = await desk.claim(slots=9)
    assert (held.key, held.args) == ("a", b'{"steps":1}')


async def test_a_time_in_the_past_is_now(desk: Desk) -> None:
    assert await desk.submit("a", run_at=at(-HOUR)) == [["accepted", "waiting"]]
    assert await desk.submit("b", delay_seconds=0) == [["accepted", "waiting"]]
    assert [held.key for held in await desk.claim(slots=9)] == ["a", "b"]


async def test_a_repeated_delayed_job_is_the_same_job(desk: Desk) -> None:
    await desk.submit("a", delay_seconds=HOUR, order_key="o", limit_key="l", keep_seconds=5)
    async with untouched(desk.store):
        assert await desk.submit("a", delay_seconds=HOUR) == [["again", "delayed"]]


async def test_what_the_record_says_of_a_job_is_all_that_was_asked_for(desk: Desk) -> None:
    await desk.submit("a", order_key="o", limit_key="l", keep_seconds=1.5, attempts=7, dedupe=Dedupe("d"))
    record = await desk.record("a")
    assert record.marks == "order=o limit=l keep=1.5 dedupe=d"
    assert record.options == '{"attempts":7}'
    (held,) = await desk.claim()
    assert held.options == b'{"attempts":7}'


async def test_until_it_has_ended_a_second_one_is_the_first(desk: Desk) -> None:
    assert await ask(desk, "a") == ["accepted", "waiting"]
    async with untouched(desk.store):
        assert await ask(desk, "b") == ["duplicate", "a", "waiting"]
    (held,) = await desk.claim()
    assert await ask(desk, "b") == ["duplicate", "a", "running"]
    await desk.complete(held)
    assert await desk.leftovers() == []
    assert await ask(desk, "b") == ["accepted", "waiting"]


@pytest.mark.parametrize("end", ["fail", "cancel", "stop", "expire", "lose"])
async def test_the_key_ends_with_its_job(store: Store, end: str) -> None:
    desk = Desk(store, max_crashes=1)
    await ask(desk, "a", expires_at=at(-1) if end == "expire" else None)
    if end == "cancel":
        await desk.cancel("a")
    elif end == "expire":
        await desk.transitions.wake([(desk.keys, desk.policy)])
    else:
        (held,) = await desk.claim()
        if end == "fail":
            await desk.fail(held)
        elif end == "lose":
            await desk.reclaim(held)
        else:
            await desk.cancel("a")
            await desk.release(held)
    assert (await desk.record("a")).state.ended
    assert await desk.leftovers() == []
    assert await ask(desk, "b") == ["accepted", "waiting"]


async def test_retries_and_releases_keep_the_key(desk: Desk) -> None:
    await ask(desk, "a")
    (held,) = await desk.claim()
    await desk.release(held)
    assert await ask(desk, "b") == ["duplicate", "a", "waiting"]
    (held,) = await desk.claim()
    await desk.fail(held, attempts=9, seconds=HOUR)
    assert await ask(desk, "b") == ["duplicate", "a", "delayed"]


async def test_an_id_that_exists_is_asked_before_the_key(desk: Desk) -> None:
    await desk.submit("b")
    await ask(desk, "a")
    async with untouched(desk.store):
        assert await ask(desk, "a") == ["again", "waiting"]
        assert await ask(desk, "a", args=b"[]") == ["conflict"]
        assert await ask(desk, "b") == ["conflict"], "its body was another, and it is not a"


async def test_a_key_whose_job_was_removed_by_hand_holds_nobody_up(desk: Desk) -> None:
    await ask(desk, "a")
    await desk.store.command("DEL", desk.keys.record("a"))
    assert await ask(desk, "b") == ["accepted", "waiting"]


async def test_a_throttle_counts_from_the_first_and_also_when_that_has_ended(desk: Desk) -> None:
    assert await ask(desk, "a", "throttle", ttl_seconds=60) == ["accepted", "waiting"]
    (held,) = await desk.claim()
    await desk.complete(held)
    assert await ask(desk, "b", "throttle", ttl_seconds=HOUR) == ["duplicate", "a", "completed"]
    taken = desk.keys.dedupe("k")
    assert 0 < await desk.store.command("PTTL", taken) <= 60_000
    await desk.store.command("PEXPIRE", taken, 1)

    async def passed() -> bool:
        return (await ask(desk, "c", "throttle", ttl_seconds=0.1))[0] == "accepted"

    await eventually("the time is over", passed)
    await eventually("and nothing is left of it", lambda: nothing_left(desk))


async def nothing_left(desk: Desk) -> bool:
    return await desk.leftovers() == []


async def test_a_debounced_job_starts_once_with_what_was_asked_last(desk: Desk) -> None:
    assert await ask(desk, "a", "debounce", b'{"steps":1}', delay_seconds=HOUR) == ["accepted", "delayed"]
    first_due = await desk.store.command("ZSCORE", desk.keys["due"], "a")
    assert await ask(desk, "b", "debounce", b'{"steps":2}', delay_seconds=2 * HOUR) == ["replaced", "a", "delayed"]
    assert float(await desk.store.command("ZSCORE", desk.keys["due"], "a")) >= float(first_due) + HOUR * 1000
    assert await ask(desk, "c", "debounce", b'{"steps":3}', delay_seconds=HOUR, attempts=9) == [
        "replaced",
        "a",
        "delayed",
    ]
    assert await desk.store.command("EXISTS", desk.keys.record("b"), desk.keys.record("c")) == 0
    await desk.past_due("a")
    (held,) = await desk.claim(slots=9)
    assert (held.key, held.args, held.options) == ("a", b'{"steps":3}', b'{"attempts":9}')
    assert await ask(desk, "d", "debounce", delay_seconds=HOUR) == ["duplicate", "a", "running"]
    await desk.complete(held)
    assert await desk.leftovers() == []
    assert await ask(desk, "d", "debounce", delay_seconds=HOUR) == ["accepted", "delayed"]


async def test_a_debounced_job_expires_as_was_said_last(desk: Desk) -> None:
    await ask(desk, "a", "debounce", delay_seconds=HOUR, expires_at=at(2 * HOUR))
    await ask(desk, "b", "debounce", delay_seconds=HOUR, expires_at=at(4 * HOUR))
    expires = float(await desk.store.command("ZSCORE", desk.keys["alarms"], "!a"))
    assert expires > (time.time() + 3 * HOUR) * 1000
    await ask(desk, "c", "debounce", delay_seconds=HOUR)
    assert await desk.store.command("ZSCORE", desk.keys["alarms"], "!a") is None


async def test_a_job_that_was_not_to_be_debounced_is_replaced_too_while_it_rests(desk: Desk) -> None:
    await ask(desk, "a", "until_done", b'{"steps":1}', delay_seconds=HOUR)
    assert await ask(desk, "b", "debounce", b'{"steps":2}', delay_seconds=HOUR) == ["replaced", "a", "delayed"]
    await desk.past_due("a")
    (held,) = await desk.claim()
    assert held.args == b'{"steps":2}'


async def test_a_debounced_job_that_is_retried_is_not_replaced(desk: Desk) -> None:
    await ask(desk, "a", "debounce", delay_seconds=HOUR)
    await desk.past_due("a")
    (held,) = await desk.claim()
    await desk.fail(held, attempts=9, seconds=HOUR)
    assert await ask(desk, "b", "debounce", b"[]", delay_seconds=HOUR) == ["duplicate", "a", "delayed"]


async def test_two_keys_in_one_call_do_not_see_each_other(desk: Desk) -> None:
    assert await ask(desk, "a", dedupe="one") == ["accepted", "waiting"]
    assert await ask(desk, "b", dedupe="two") == ["accepted", "waiting"]


async def test_a_reopened_job_has_its_key_again(desk: Desk) -> None:
    await ask(desk, "a")
    (held,) = await desk.claim()
    await desk.fail(held)
    await desk.transitions.reopen(desk.keys, "a")
    assert await ask(desk, "b") == ["duplicate", "a", "waiting"]
    (held,) = await desk.claim()
    await desk.complete(held)
    assert await desk.leftovers() == []


async def test_a_reopened_job_leaves_the_key_to_who_has_it_by_now(desk: Desk) -> None:
    await ask(desk, "a")
    (held,) = await desk.claim()
    await desk.fail(held)
    assert await ask(desk, "b") == ["accepted", "waiting"]
    await desk.transitions.reopen(desk.keys, "a")
    for held in await desk.claim(slots=2):
        if held.key == "a":
            await desk.complete(held)
    assert await ask(desk, "c") == ["duplicate", "b", "running"]
    assert (await desk.record("a")).state is State.COMPLETED
