"""report: a step of a running attempt is shown at most once, and only for its owner."""

import re
from datetime import UTC, datetime

from tailrace.streams.history.events import event_body, progress_of
from tailrace.streams.operations import call
from tailrace.streams.policies import MAX_EVENTS
from tailrace.streams.replies import to_hints
from tailrace.streams.store.connection import Store
from tests.support.builders import NOBODY, Desk, forget_scripts, untouched


async def test_a_report_is_shown(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.report(held, 1, step="fetch") == "shown"
    assert await desk.story("a") == ["queued", "started 1", "progress 1 step fetch"]


async def test_progress_is_that_of_the_last_report(desk: Desk) -> None:
    held = await desk.start()
    assert progress_of(1, await desk.log("a")) is None
    await desk.report(held, 1, step=20)
    await desk.report(held, 2, step=40)
    assert progress_of(1, await desk.log("a")) == 40
    await desk.complete(held)
    assert progress_of(1, await desk.log("a")) == 40


async def test_a_repeated_report_is_shown_once(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.report(held, 2)
    async with untouched(desk.store):
        assert await desk.report(held, 2) == "again"
        assert await desk.report(held, 1) == "again"
    assert await desk.story("a") == ["queued", "started 1", "progress 1 step 1", "progress 1 step 2"]


async def test_nothing_is_shown_after_the_end(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.complete(held)
    async with untouched(desk.store):
        assert await desk.report(held, 1) == "lost"
        assert await desk.report(held, 2) == "lost"


async def test_the_start_is_told_before_and_after_the_first_report_in_the_same_bytes(desk: Desk) -> None:
    held = await desk.start()
    started = (await desk.log("a"))[1]
    assert (await desk.history("a"))[1].workerId == "ann"
    await desk.report(held, 1)
    assert (await desk.log("a"))[1] == started
    assert await desk.store.command("LLEN", desk.keys.log("a")) == 2


async def test_a_stranger_shows_nothing(desk: Desk) -> None:
    held = await desk.start()
    async with untouched(desk.store):
        event = desk.progress_event(held, 1)
        assert await desk.transitions.report(desk.keys, "a", NOBODY, 1, event) == "lost"
        assert await desk.transitions.report(desk.keys, "a", "", 1, event) == "lost"
        assert await desk.transitions.report(desk.keys, "unknown", held.nonce, 1, event) == "lost"


async def test_an_attempt_that_was_taken_over_is_mute(desk: Desk) -> None:
    old = await desk.start("a", "ann")
    await desk.report(old, 1)
    await desk.reclaim(old)
    async with untouched(desk.store):
        assert await desk.report(old, 2) == "lost"
    (new,) = await desk.claim("bob")
    async with untouched(desk.store):
        assert await desk.report(old, 1) == "lost"
        assert await desk.report(old, 3) == "lost"
    assert await desk.report(new, 1) == "shown"


async def test_an_attempt_that_was_handed_back_is_mute(desk: Desk) -> None:
    held = await desk.start()
    await desk.release(held)
    async with untouched(desk.store):
        assert await desk.report(held, 1) == "lost"


async def test_a_new_attempt_counts_its_reports_anew(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.release(held)
    (held,) = await desk.claim()
    assert await desk.report(held, 1) == "shown"
    assert (await desk.story("a"))[-2:] == ["started 2", "progress 2 step 1"]


async def test_events_are_numbered_without_a_gap_and_carry_the_stores_time(desk: Desk) -> None:
    held = await desk.start()
    for number in range(1, 4):
        await desk.report(held, number)
    await desk.complete(held)
    seconds, micros = map(int, await desk.store.command("TIME"))
    written = await desk.history("a")
    assert [event.seq for event in written] == [1, 2, 3, 4, 5, 6]
    for event in written:
        seq, _, stamp = event.id.partition("-")
        assert int(seq) == event.seq
        stamp = stamp[:16]  # the microsecond; then the event's number within its call
        at = datetime.fromtimestamp(int(stamp) // 1000 / 1000, UTC)
        assert event.time == at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert 0 <= seconds * 1_000_000 + micros - int(stamp) < 60_000_000
    assert [event.jobId for event in written] == ["shop.a"] * 6


async def test_an_event_begins_with_id_seq_and_time(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    for event in await desk.log("a"):
        assert re.match(
            rb'{"id":"\d+-\d{16,17}","seq":\d+,"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","jobId":"shop.a",', event
        )


async def test_the_live_feed_carries_the_very_bytes_of_the_history(desk: Desk) -> None:
    held = await desk.start()
    await desk.report(held, 1)
    await desk.complete(held, {"sum": 3})
    hints = to_hints("shop", await desk.store.command("XRANGE", desk.keys["events"], "-", "+"))
    assert [(hint.key, hint.seq) for hint in hints] == [("a", 2), ("a", 3), ("a", 4)]
    assert [hint.event for hint in hints] == (await desk.log("a"))[1:]


async def test_an_event_too_large_to_travel_twice_is_only_pointed_at(desk: Desk) -> None:
    held = await desk.start()
    event = event_body(1, "progress", "ann", 1, data="x" * 5000)
    assert await desk.transitions.report(desk.keys, "a", held.nonce, 1, event) == "shown"
    hint = to_hints("shop", await desk.store.command("XRANGE", desk.keys["events"], "-", "+"))[-1]
    assert (hint.seq, hint.event) == (3, None)
    assert (await desk.history("a"))[-1].data == "x" * 5000


async def test_the_live_feed_is_bounded_in_bytes_with_the_largest_events(desk: Desk) -> None:
    held = await desk.start()
    event = event_body(1, "progress", "ann", 1, data="x" * 3900)
    for batch in range(300):  # 38 MB in all
        numbers = range(32 * batch + 1, 32 * batch + 33)
        reports = [
            call.report(desk.keys, key="a", nonce=held.nonce, number=number, most=MAX_EVENTS, events=event)
            for number in numbers
        ]
        assert await desk.transitions.commit(desk.keys, reports) == [b"shown"] * 32
        await desk.store.command("DEL", desk.keys.log("a"))
    used = await desk.store.command("MEMORY", "USAGE", desk.keys["events"], "SAMPLES", 0)
    assert 4_000_000 < used < 16_000_000
    hints = to_hints("shop", await desk.store.command("XREVRANGE", desk.keys["events"], "+", "-", "COUNT", 1))
    assert hints[-1].seq == 2 + 32 * 300, "the newest are there"


async def test_small_events_stay_in_the_live_feed_for_thousands_of_calls(desk: Desk) -> None:
    held = await desk.start()
    for number in range(1, 1001):
        await desk.report(held, number)
    assert await desk.store.command("XLEN", desk.keys["events"]) == 1001


async def test_a_report_calls_no_consumer(desk: Desk) -> None:
    held = await desk.start()
    await desk.asleep("zoe")
    await desk.report(held, 1)
    assert await desk.called() == []


async def test_a_report_is_shown_after_the_server_forgot_the_script(desk: Desk) -> None:
    held = await desk.start()
    await forget_scripts(desk.store)
    assert await desk.report(held, 1) == "shown"


async def test_a_job_has_a_bounded_number_of_events_and_can_still_end(store: Store) -> None:
    desk = Desk(store, max_events=10)
    first = await desk.start()
    assert [await desk.report(first, number) for number in range(1, 6)] == ["shown"] * 5  # after queued and started
    await desk.reclaim(first)
    (second,) = await desk.claim()
    assert await desk.report(second, 1) == "shown"  # event 10
    async with untouched(store):
        assert await desk.report(second, 2) == "full 0"
        assert await desk.report(second, 1) == "again", "a repeated call gets the same answer"
        assert await desk.report(first, 6) == "lost", "the fence comes first"
    assert await desk.complete(second) == "ok"
    assert [event.seq for event in await desk.history("a")] == list(range(1, 12))


async def test_reports_in_one_operation_are_shown_in_their_order(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.report_together(held, 3, ["b", "a", 7]) == "shown"
    assert await desk.report_together(held, 5, [1, 2]) == "shown"
    assert (await desk.story("a"))[1:] == ["started 1", *(f"progress 1 step {step}" for step in ("b", "a", 7, 1, 2))]
    written = await desk.history("a")
    assert [event.seq for event in written] == list(range(1, 8))
    assert len({event.id for event in written}) == 7
    hints = to_hints("shop", await desk.store.command("XRANGE", desk.keys["events"], "-", "+"))
    assert [(hint.key, hint.seq) for hint in hints] == [("a", seq) for seq in range(2, 8)]
    assert [hint.event for hint in hints] == (await desk.log("a"))[1:]


async def test_reports_that_are_repeated_together_are_shown_once(desk: Desk) -> None:
    held = await desk.start()
    assert await desk.report_together(held, 3, [1, 2, 3]) == "shown"
    async with untouched(desk.store):
        assert await desk.report_together(held, 3, [1, 2, 3]) == "again"
        assert await desk.report(held, 2) == "again"
    assert await desk.report(held, 4) == "shown"
    assert [event.step for event in (await desk.history("a"))[2:]] == [1, 2, 3, 4]


async def test_reports_in_one_operation_are_refused_together(desk: Desk) -> None:
    old = await desk.start()
    await desk.reclaim(old)
    (new,) = await desk.claim("bob")
    await desk.cancel("a")
    async with untouched(desk.store):
        assert await desk.report_together(old, 2, [1, 2]) == "lost"
        assert await desk.report_together(new, 2, [1, 2]) == "cancelled"


async def test_of_reports_in_one_operation_those_are_shown_that_have_room(store: Store) -> None:
    desk = Desk(store, max_events=10)
    held = await desk.start()
    assert await desk.report(held, 1) == "shown"
    assert await desk.report_together(held, 10, range(2, 11)) == "full 7"
    async with untouched(store):
        assert await desk.report_together(held, 10, range(2, 11)) == "full 7", "a repeated call gets the same answer"
        assert await desk.report(held, 8) == "again"
        assert await desk.report_together(held, 12, [11, 12]) == "full 0"
    assert await desk.complete(held) == "ok"
    written = await desk.history("a")
    assert [event.step for event in written[2:]] == [1, 2, 3, 4, 5, 6, 7, 8, None]
    assert [event.seq for event in written] == list(range(1, 12))
