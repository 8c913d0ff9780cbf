"""requeue: an attempt puts its job back at the end of the line, and that is not a failure."""

from tailrace.streams.states import State
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched
from tests.support.flowing import requeue


async def test_others_go_first(desk: Desk) -> None:
    await desk.submit("a", args=b"[1]")
    (held,) = await desk.claim()
    await desk.submit("b", "c")
    assert await requeue(desk, held) == "ok"
    record = await desk.record("a")
    assert (record.state, record.failures, record.crashes) == (State.WAITING, 0, 0)
    claims = await desk.claim("bob", slots=3)
    assert [(claim.key, claim.number) for claim in claims] == [("b", 1), ("c", 1), ("a", 2)]
    assert claims[2].args == b"[1]"
    assert await desk.story("a") == ["queued", "started 1", "superseded 1", "started 2"]
    assert (await desk.history("a"))[2].reason == "requeued"
    assert len(await desk.line()) == 3


async def test_large_args_and_the_time_of_acceptance_stay(desk: Desk) -> None:
    await desk.submit("a", args=b'"%b"' % (b"x" * 9000))
    before = await desk.record("a")
    (held,) = await desk.claim()
    await requeue(desk, held)
    (held,) = await desk.claim()
    await requeue(desk, held)
    (held,) = await desk.claim()
    assert (len(held.args), (await desk.record("a")).accepted_ms) == (9002, before.accepted_ms)


async def test_it_goes_behind_the_others_of_its_order(desk: Desk) -> None:
    await desk.submit("a", "b", order_key="o")
    (held,) = await desk.claim(slots=2)
    assert await requeue(desk, held) == "ok"
    (held,) = await desk.claim(slots=2)
    assert held.key == "b"
    await desk.complete(held)
    assert [claim.key for claim in await desk.claim(slots=2)] == ["a"]


async def test_a_repeated_one_and_a_strangers_change_nothing(desk: Desk) -> None:
    held = await desk.start()
    async with untouched(desk.store):
        assert await requeue(desk, held, nonce=NOBODY) == "lost"
    await requeue(desk, held)
    async with untouched(desk.store):
        assert await requeue(desk, held) == "again"


async def test_a_job_that_was_asked_to_stop_or_started_too_often_ends(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a")
    assert await requeue(desk, held) == "cancelled"
    held = await desk.start("b")
    assert await requeue(desk, held, max_starts=1) == "failed"


async def test_a_job_goes_back_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await requeue(desk, held) == "ok"
