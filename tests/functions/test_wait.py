"""wait: an attempt ends without failing, and its job goes on once what it waits for is there, or its time is over."""

from tailrace.streams.states import State
from tailrace.streams.store.connection import Store
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched
from tests.support.flowing import join, signal, spawn, wait, waiting_parent

HOUR = 3600.0


async def alarm_rings(desk: Desk, key: str = "a") -> None:
    """As if the time of a job that awaits something were over."""
    await desk.store.command("ZADD", desk.keys["alarms"], "XX", 1, f"^{key}")


async def test_a_job_that_awaits_children_holds_no_slot(shop: Desk) -> None:
    await waiting_parent(shop, "ably.b", "ably.c")
    record = await shop.record("a")
    assert (record.state, record.awaits, record.failures, record.crashes) == (State.AWAITING, "join", 0, 0)
    assert (await shop.look()).leases == ()
    await shop.submit("z")
    assert [held.key for held in await shop.claim()] == ["z"]
    last = (await shop.history("a"))[-1]
    assert (last.status, last.attempt, last.awaits, last.pending) == ("awaiting", 1, "children", 2)


async def test_a_join_of_another_number_looks_again(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b")
    await join(desk, held, "kurly.b")
    async with untouched(desk.store):
        assert await wait(desk, held, place="2") == ["ready", ""]


async def test_a_sleep_rests_until_its_time_and_is_passed_afterwards(desk: Desk) -> None:
    held = await desk.start()
    assert await wait(desk, held, "sleep", "~sleep 1", seconds=HOUR) == "ok"
    assert (await desk.record("a")).state is State.DELAYED
    last = (await desk.history("a"))[-1]
    assert (last.status, last.reason) == ("delayed", "sleep")
    assert await desk.claim() == []
    await desk.past_due("a")
    (again,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await wait(desk, again, "sleep", "~sleep 1", seconds=HOUR) == ["ready", ""]
    assert await desk.transitions.recall(desk.keys, "a", again.nonce) == ("", {"~sleep 1": b"true"})
    assert await wait(desk, again, "sleep", "~sleep 2", seconds=HOUR) == "ok"


async def test_a_sleep_of_no_time_is_over_at_once(desk: Desk) -> None:
    held = await desk.start()
    assert await wait(desk, held, "sleep", "~1", seconds=0) == ["ready", ""]
    assert await wait(desk, held, "signal", "~2", seconds=0, name="go") == "timeout"
    assert (await desk.record("a")).state is State.RUNNING


async def test_a_signal_that_came_first_is_there(desk: Desk) -> None:
    held = await desk.start()
    assert await signal(desk, "a", "go", b"[1]") == "kept"
    async with untouched(desk.store):
        assert await wait(desk, held, "signal", "~1", name="go") == ["ready", "[1]"]


async def test_a_job_awaits_a_signal_until_its_time_is_over(desk: Desk) -> None:
    held = await desk.start()
    assert await wait(desk, held, "signal", "~my place", name="go", seconds=HOUR) == "ok"
    last = (await desk.history("a"))[-1]
    assert (last.status, last.awaits, last.signal) == ("awaiting", "signal", "go")
    assert last.until
    await alarm_rings(desk)
    (again,) = await desk.claim("bob")
    assert again.number == 2
    await signal(desk, "a", "go")
    async with untouched(desk.store):
        assert await wait(desk, again, "signal", "~my place", name="go", seconds=HOUR) == "timeout", (
            "whatever came later"
        )
    assert await wait(desk, again, "signal", "~2", name="go", seconds=HOUR) == ["ready", "null"]


async def test_a_join_whose_time_is_over_goes_on(desk: Desk) -> None:
    held = await desk.start()
    await spawn(desk, held, "kurly.b")
    await join(desk, held, "kurly.b")
    await wait(desk, held, seconds=HOUR)
    await alarm_rings(desk)
    (again,) = await desk.claim("bob")
    assert again.key == "a"
    assert not await desk.store.command("EXISTS", desk.keys.steps("a"))


async def test_a_clock_that_was_set_back_lengthens_no_wait(desk: Desk) -> None:
    held = await desk.start()
    await wait(desk, held, "signal", "~1", name="go", seconds=60)
    now = int((await desk.store.command("TIME"))[0]) * 1000
    await desk.store.command("ZADD", desk.keys["alarms"], now + 7_200_000, "^a")
    await desk.store.command("HSET", desk.keys["control"], "latest_ms", now + 7_140_000)
    await desk.claim()
    at = int(await desk.store.command("ZSCORE", desk.keys["alarms"], "^a"))
    assert at <= now + 62_000


async def test_a_repeated_wait_is_told_so(desk: Desk) -> None:
    held = await desk.start()
    await wait(desk, held, "signal", "~1", name="go", seconds=HOUR)
    async with untouched(desk.store):
        assert await wait(desk, held, "signal", "~1", name="go", seconds=HOUR) == "again"
    await signal(desk, "a", "go")
    async with untouched(desk.store):
        assert await wait(desk, held, "signal", "~1", name="go", seconds=HOUR) == "again", (
            "also when it goes on already"
        )


async def test_a_stranger_waits_for_nothing(desk: Desk) -> None:
    old = await desk.start()
    async with untouched(desk.store):
        assert await wait(desk, old, "sleep", "~1", seconds=1, nonce=NOBODY) == "lost"
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await wait(desk, old, "sleep", "~1", seconds=1) == "lost"


async def test_a_job_that_was_asked_to_stop_ends_instead(desk: Desk) -> None:
    held = await desk.start()
    await desk.cancel("a")
    assert await wait(desk, held, "sleep", "~1", seconds=1) == "cancelled"
    assert (await desk.record("a")).state is State.CANCELLED


async def test_a_job_that_was_started_too_often_ends_failed(desk: Desk) -> None:
    held = await desk.start()
    assert await wait(desk, held, "signal", "~1", name="go", max_starts=1) == "failed"
    assert (await desk.history("a"))[-1].reason == "starts"


async def test_in_strict_order_others_start_while_a_job_awaits(store: Store) -> None:
    desk = Desk(store, order="strict")
    await waiting_parent(desk, "shop.b")
    assert [held.key for held in await desk.claim()] == ["b"]


async def test_others_of_its_order_wait_unless_they_may_pass(desk: Desk) -> None:
    for order, name in (("block", "o"), ("skip", "p")):
        await desk.submit(f"a{name}", f"z{name}", order_key=name)
        (held,) = await desk.claim(slots=1)
        assert await wait(desk, held, "signal", "~1", name="go", order=order) == "ok"
    assert [held.key for held in await desk.claim(slots=2)] == ["zp"]


async def test_a_cancelled_job_awaits_nothing_any_more(desk: Desk) -> None:
    held = await desk.start()
    await wait(desk, held, "signal", "~1", name="go", seconds=HOUR)
    assert await desk.cancel("a") == "ok"
    assert await desk.leftovers() == []
    assert not await desk.store.command("EXISTS", desk.keys["awaiting"], desk.keys["alarms"])


async def test_a_job_waits_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await wait(desk, held, "sleep", "~1", seconds=1) == "ok"
