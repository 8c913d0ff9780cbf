"""submit: a job is accepted once."""

import pytest

from tailrace.streams.errors import StoreFull
from tailrace.streams.keys import BANDS
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tailrace.streams.transitions import ARGS_ROOM
from tests.support.builders import Desk, forget_scripts, untouched


async def test_an_accepted_job_waits_in_line_with_its_args(desk: Desk) -> None:
    assert await desk.submit("a", args=b'{"steps":1}') == [["accepted", "waiting"]]
    record = await desk.record("a")
    assert (record.state, record.kind, record.band, record.seq, record.attempt) == (
        State.WAITING,
        "drill",
        "normal",
        1,
        0,
    )
    entries = await desk.store.command("XRANGE", desk.keys.jobs("normal"), "-", "+")
    assert entries == [[record.entry.encode(), [b"id", b"a", b"args", b'{"steps":1}']]]
    assert await desk.story("a") == ["queued"]


async def test_the_same_id_with_the_same_body_is_the_same_job(desk: Desk) -> None:
    await desk.submit("a")
    async with untouched(desk.store):
        assert await desk.submit("a") == [["again", "waiting"]]


async def test_a_repeated_submit_tells_where_the_job_is_now(desk: Desk) -> None:
    held = await desk.start("a")
    assert await desk.submit("a") == [["again", "running"]]
    await desk.complete(held)
    async with untouched(desk.store):
        assert await desk.submit("a") == [["again", "completed"]]


async def test_the_same_id_with_another_body_is_refused(desk: Desk) -> None:
    await desk.submit("a")
    async with untouched(desk.store):
        assert await desk.submit("a", args=b'{"steps":2}') == [["conflict"]]
        assert await desk.submit("a", band="urgent") == [["conflict"]]


async def test_many_jobs_in_one_call_keep_their_order(desk: Desk) -> None:
    keys = [f"job-{number}" for number in range(500)]
    assert await desk.submit(*keys) == [["accepted", "waiting"]] * 500
    entries = [tuple(map(int, entry.split("-"))) for entry in await desk.line()]
    assert entries == sorted(set(entries))
    assert [held.key for held in await desk.claim(slots=500)] == keys


async def test_a_job_named_twice_in_one_call_is_accepted_once(desk: Desk) -> None:
    assert await desk.submit("a", "a") == [["accepted", "waiting"], ["again", "waiting"]]
    assert len(await desk.line()) == 1


@pytest.mark.parametrize("band", BANDS)
async def test_each_priority_has_a_line_of_its_own(desk: Desk, band: str) -> None:
    await desk.submit("a", band=band)
    assert [await desk.line(other) != [] for other in BANDS] == [other == band for other in BANDS]


@pytest.mark.parametrize(("size", "beside"), [(ARGS_ROOM, False), (ARGS_ROOM + 1, True)])
async def test_args_over_8_kb_are_kept_beside_the_line(desk: Desk, size: int, beside: bool) -> None:
    args = b'"' + b"x" * (size - 2) + b'"'
    await desk.submit("a", args=args)
    assert await desk.store.command("GET", desk.keys.args("a")) == (args if beside else None)
    (held,) = await desk.claim()
    assert held.args == args


async def test_a_record_stays_small_through_a_whole_life(desk: Desk) -> None:
    """In one listpack it takes a few hundred bytes; one value over 64 bytes would make it a table of a kilobyte."""
    key, owner = "k" * 64, "w" * 64
    await desk.transitions.submit([(desk.job(key, kind="k" * 64), "f" * 16)])
    (held,) = await desk.claim(owner)
    await desk.report(held, 1)
    assert await desk.reclaim(held) == "reclaimed"
    (held,) = await desk.claim(owner)
    await desk.complete(held)
    assert await desk.store.command("OBJECT", "ENCODING", desk.keys.record(key)) == b"listpack"


async def test_only_an_accepted_job_calls_an_idle_consumer(desk: Desk) -> None:
    await desk.asleep("yan")
    await desk.submit("a")
    assert await desk.called() == ["yan"]
    await desk.asleep("zoe")
    await desk.submit("a")
    await desk.submit("a", args=b"[]")
    assert await desk.called() == ["yan"]


async def test_a_job_is_accepted_after_the_server_forgot_the_script(desk: Desk) -> None:
    await desk.submit("a")
    await forget_scripts(desk.store)
    assert await desk.submit("b") == [["accepted", "waiting"]]


async def test_a_corrupt_record_breaks_only_its_own_submission(desk: Desk) -> None:
    await desk.store.command("SET", desk.keys.record("b"), "corrupt")
    jobs = [(desk.job(key), "same") for key in "abc"]
    with pytest.raises(BrokenOperation, match="WRONGTYPE"):
        await desk.transitions.submit(jobs)
    assert [held.key for held in await desk.claim(slots=3)] == ["a", "c"]


@pytest.mark.usefixtures("single_server")
async def test_a_full_store_refuses_new_work_and_lets_running_jobs_end(store: Store, desk: Desk) -> None:
    held = await desk.start("a")
    await desk.submit("b")
    await store.command("SET", "filler", b"x" * 2_000_000)
    await store.command("CONFIG", "SET", "maxmemory", "1mb")
    try:
        async with untouched(store):
            with pytest.raises(StoreFull):
                await desk.submit("c")
        await desk.beat("ann", [held])
        assert await desk.report(held, 1) == "shown"
        assert await desk.complete(held) == "ok"
        (held,) = await desk.claim()
        assert await desk.release(held) == "ok"
        (held,) = await desk.claim()
        assert await desk.reclaim(held) == "reclaimed"
        (held,) = await desk.claim()
        assert await desk.fail(held) == "failed"
    finally:
        await store.command("CONFIG", "SET", "maxmemory", "0")
    assert await desk.submit("c") == [["accepted", "waiting"]]
