"""reopen: an ended job gets another life: its budgets are new, its history and its args stay."""

import pytest

from tailrace.streams.operations import Again
from tailrace.streams.states import State
from tests.support.builders import Desk, error_of, forget_scripts, untouched

ARGS = b'{"query":"tides"}'


async def reopen(desk: Desk, key: str = "a", more: bytes = b"") -> str:
    return await desk.transitions.reopen(desk.keys, key, more)


async def test_a_failed_job_comes_back_with_its_history_and_its_args(desk: Desk) -> None:
    await desk.submit("a", args=ARGS)
    (held,) = await desk.claim()
    await desk.fail(held)
    assert await reopen(desk, more=b',"by":"ops"') == "ok"
    assert await desk.store.command("ZCARD", desk.keys["ended_failed"]) == 0
    (again,) = await desk.claim("bob")
    assert (again.key, again.number, again.args, again.kind) == ("a", 2, ARGS, "drill")
    assert await desk.complete(again) == "ok"
    assert await desk.story("a") == ["queued", "started 1", "failed 1", "reopened 1", "started 2", "completed 2"]
    history = await desk.history("a")
    assert [event.seq for event in history] == [1, 2, 3, 4, 5, 6]
    assert history[3].by == "ops"


async def test_large_args_come_back_too(desk: Desk) -> None:
    large = b'"' + b"x" * 20_000 + b'"'
    await desk.submit("a", args=large)
    (held,) = await desk.claim()
    await desk.fail(held)
    await reopen(desk)
    assert [again.args for again in await desk.claim()] == [large]


async def test_a_job_may_fail_and_be_reopened_again_and_again(desk: Desk) -> None:
    await desk.submit("a", args=ARGS)
    for number in (1, 2, 3):
        (held,) = await desk.claim()
        assert (held.number, held.args) == (number, ARGS)
        assert await desk.fail(held) == "failed"
        assert await reopen(desk) == "ok"
    assert [event.seq for event in await desk.history("a")] == list(range(1, 11))


async def test_a_cancelled_job_comes_back_whether_it_had_started_or_not(desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    await desk.cancel("a")
    await desk.complete(held)
    await desk.cancel("b")
    assert [await reopen(desk, key) for key in ("a", "b")] == ["ok", "ok"]
    assert await desk.store.command("ZCARD", desk.keys["ended_cancelled"]) == 0
    assert [(again.key, again.number) for again in await desk.claim(slots=2)] == [("a", 2), ("b", 1)]
    assert (await desk.pulse("ann", [])).stop == []  # nobody asks the new attempts to stop
    assert await desk.story("b") == ["queued", "cancelled", "reopened", "started 1"]


async def test_a_job_may_be_reopened_and_cancelled_again_and_again(desk: Desk) -> None:
    await desk.submit("a")
    for _ in range(3):
        assert await desk.cancel("a") == "ok"
        assert await reopen(desk) == "ok"
    assert (await desk.record("a")).state is State.WAITING


async def test_its_budgets_are_new(desk: Desk) -> None:
    await desk.submit("a")
    for _ in range(2):
        (held,) = await desk.claim()
        await desk.fail(held, attempts=2)
    await reopen(desk)
    record = await desk.record("a")
    assert (record.failures, record.crashes, record.ended_ms) == (0, 0, None)
    (held,) = await desk.claim()
    assert (held.failures, held.age_seconds) == (0, 0.0)
    assert await desk.fail(held, attempts=2) == "retrying"


async def test_its_starts_are_counted_anew(desk: Desk) -> None:
    twice = Again(0, 9, 2)
    await desk.submit("a")
    for _ in range(2):  # in each of two lives
        for word in ("retrying", "failed"):
            (held,) = await desk.claim()
            assert await desk.transitions.fail(desk.keys, "a", held.nonce, twice, error_of("m")) == word
        await reopen(desk)
    (held,) = await desk.claim()
    assert held.number == 5
    assert await desk.transitions.release(desk.keys, "a", held.nonce, 2) == "ok"


async def test_the_time_it_may_take_begins_anew(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held, attempts=2)
    (held,) = await desk.claim()
    await desk.store.command("HSET", desk.keys.record("a"), "first_ms", 1)
    await desk.fail(held)
    await reopen(desk)
    (held,) = await desk.claim()
    assert held.age_seconds == 0.0


async def test_its_number_in_the_history_is_right_after_somebody_wrote_into_it(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held)
    await desk.store.command("RPUSH", desk.keys.log("a"), "by hand")
    await reopen(desk)
    kept = await desk.store.command("LRANGE", desk.keys.log("a"), -1, -1)
    assert kept[0].startswith(b"4-")


async def test_a_job_that_has_not_ended_is_not_reopened(desk: Desk) -> None:
    await desk.submit("waiting", "done", "running")
    await desk.submit("delayed", delay_seconds=3600)
    await desk.cancel("waiting")
    done, _ = await desk.claim(slots=2)
    await desk.complete(done)
    await reopen(desk, "waiting")
    async with untouched(desk.store):
        for key, word in (
            *(("waiting", "waiting"), ("delayed", "delayed"), ("running", "running"), ("done", "completed")),
            ("unknown", "missing"),
        ):
            assert await reopen(desk, key) == word


async def test_the_old_attempt_stays_mute(desk: Desk) -> None:
    held = await desk.start()
    await desk.fail(held)
    await reopen(desk)
    async with untouched(desk.store):
        assert await desk.fail(held) == "lost"
        assert await desk.complete(held) == "lost"
        assert await desk.release(held) == "lost"


@pytest.mark.parametrize("band", ["urgent", "low"])
async def test_it_goes_back_to_the_line_it_was_in(desk: Desk, band: str) -> None:
    await desk.submit("a", band=band)
    (held,) = await desk.claim()
    await desk.fail(held)
    await desk.asleep("zoe")
    await reopen(desk)
    assert len(await desk.line(band)) == 1
    assert await desk.called() == ["zoe"]


async def test_a_job_is_reopened_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a")
    await forget_scripts(desk.store)
    assert await reopen(desk) == "ok"
