"""Why a job waits, asked of each kind of server: every reason, and that it agrees with what a claim does."""

import asyncio

import pytest

from tailrace.streams.keys import PlatformKeys
from tailrace.streams.options import at_ms
from tailrace.streams.pauses import pause_note
from tailrace.streams.policies import Platforms
from tailrace.streams.store.connection import Store
from tailrace.streams.views import presence as presence_module
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.explain import WaitExplainer
from tailrace.streams.waiting.reasons import Reason, WhyWaiting
from tests.functions.why import asking, served, watching
from tests.support.builders import Desk, in_lane
from tests.support.eventually import eventually

HOUR = 3600.0


def words(waiting: WhyWaiting) -> list[str]:
    return [each.reason for each in waiting.reasons]


def reason_of(waiting: WhyWaiting, word: str) -> Reason:
    (found,) = [each for each in waiting.reasons if each.reason == word]
    return found


def ms(text: str | None) -> int:
    found = at_ms(text, "time")
    assert found is not None
    return found


async def now_ms(store: Store) -> int:
    seconds, micros = await store.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_a_job_whose_turn_is_next_says_so(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a")
    waiting = await why("a")
    assert (waiting.position, waiting.exact) == (1, True)
    assert waiting.reasons == (Reason("next", "Its turn is next."),)


async def test_who_stands_before_it_is_counted_and_the_nearest_is_named(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a", "b", "c")
    assert (await why("b")).reasons == (Reason("ahead", "1 job stands before it: shop.a.", job="shop.a"),)
    waiting = await why("c")
    assert waiting.position == 3
    assert waiting.reasons == (Reason("ahead", "2 jobs stand before it; the last of them is shop.b.", job="shop.b"),)
    await desk.submit("d", band="high")
    assert (await why("c")).position == 4
    assert (await why("d")).position == 1


async def test_a_pause_tells_by_whom_and_since(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a")
    await desk.transitions.pause(desk.keys, pause_note("ann", "2026-01-01T00:00:00.000Z"))
    waiting = await why("a")
    paused = reason_of(waiting, "paused")
    assert paused.by == "ann"
    assert "paused by ann since 2026-01-01T00:00:00.000Z" in paused.detail
    assert waiting.reasons[0] is paused
    assert (waiting.position, waiting.exact) == (1, True)
    assert await desk.claim() == []


async def test_nobody_is_there_to_take_it(desk: Desk) -> None:
    why = asking(desk)
    await desk.submit("a")
    waiting = await why("a")
    assert waiting.reasons == (Reason("no_consumer", "No consumer of shop is known."),)
    await desk.beat("ann")

    async def is_next() -> bool:
        return words(await why("a")) == ["next"]

    await eventually("the consumer is seen", is_next)


async def test_a_consumer_that_fell_silent_is_named_once_that_is_known(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence_module, "DEADLINE_SECONDS", 1.0)
    why = await served(desk)
    await desk.submit("a")
    assert words(await why("a")) == ["next"], "nobody knows yet"

    async def is_silent() -> WhyWaiting | None:
        waiting = await why("a")
        return waiting if words(waiting) == ["no_consumer"] else None

    waiting = await eventually("it is silent for its deadline", is_silent)
    assert waiting is not None
    assert waiting.reasons[0].detail == "No consumer of shop is alive; silent: ann."


async def test_a_glance_waits_for_nobody_and_looks_no_oftener_than_it_must(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence = Presence(desk.transitions, ["shop"], patience_seconds=60.0)
    looks, observe = 0, desk.transitions.observe

    async def counting(platforms: list[PlatformKeys]) -> list[dict[str, str]]:
        nonlocal looks
        looks += 1
        return await observe(platforms)

    monkeypatch.setattr(desk.transitions, "observe", counting)
    assert await presence.glance() == []
    await desk.beat("ann")
    assert await presence.glance() == [], "that was a moment ago"
    assert looks == 1
    patient = Presence(desk.transitions, ["shop"], patience_seconds=60.0)
    waits_for_a_beat = asyncio.create_task(patient.see())
    await asyncio.sleep(0)  # it has begun to look
    assert await patient.glance() is None, "nobody has looked yet"

    async def is_seen() -> bool:
        return [(seen.owner, seen.alive) for seen in await patient.glance() or ()] == [("ann", None)]

    await eventually("it is seen, and nobody knows more", is_seen)
    assert not waits_for_a_beat.done()
    await desk.beat("ann")
    assert [seen.alive for seen in await waits_for_a_beat] == [True]


async def test_a_rate_tells_until_when(store: Store) -> None:
    desk = Desk(store, rate=2, rate_seconds=HOUR)
    why = await served(desk)
    await desk.submit("a", "b", "c", "d", "e")
    assert words(await why("b")) == ["ahead"]
    assert len(await desk.claim("ann", 9)) == 2
    waiting = await why("c")
    rate = reason_of(waiting, "rate")
    assert words(waiting) == ["rate"]
    assert HOUR * 1000 - 60_000 < ms(rate.until) - await now_ms(store) <= HOUR * 1000
    assert words(await why("e")) == ["rate", "ahead"]


async def test_a_rate_that_a_handler_found_exceeded_holds_all(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    await desk.delay(held, HOUR, hold=True)
    waiting = await why("b")
    assert words(waiting) == ["held"]
    assert 0 < ms(waiting.reasons[0].until) - await now_ms(desk.store) <= HOUR * 1000
    assert words(await why("a")) == ["delay", "held"]
    assert await desk.claim() == []
    await desk.store.command("HSET", desk.keys["control"], "held_until_ms", 1)
    assert words(await why("b")) == ["next"], "that is over"


@pytest.mark.parametrize("looked_at", [False, True], ids=["in line", "beside the line"])
async def test_a_limit_key_names_who_has_its_places(store: Store, looked_at: bool) -> None:
    desk = Desk(store, max_running_per_key=2)
    why = await served(desk)
    await desk.submit("a", "b", "c", "d", limit_key="tenant:1")
    await desk.claim("ann", 9 if looked_at else 2)
    waiting = await why("d")
    limit = waiting.reasons[0]
    assert (limit.reason, limit.job) == ("limit", "shop.a")
    assert limit.detail.startswith(
        "Of the limit key tenant:1 2 jobs may run at a time, and shop.a, shop.b are running."
    )
    assert ("1 job came before" in limit.detail) is looked_at
    await desk.submit("other", limit_key="tenant:2")
    assert "limit" not in words(await why("other"))


async def test_the_rate_of_a_limit_key_tells_until_when(store: Store) -> None:
    desk = Desk(store, key_rate=1, key_rate_seconds=HOUR)
    why = await served(desk)
    await desk.submit("a", "b", limit_key="l")
    assert len(await desk.claim("ann", 9)) == 1
    waiting = await why("b")
    limit = waiting.reasons[0]
    assert limit.reason == "limit"
    assert 0 < ms(limit.until) - await now_ms(store) <= HOUR * 1000


async def test_an_order_key_names_who_runs_or_comes_first(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a", "b", order_key="cart")
    waiting = await why("b")
    assert waiting.reasons[0] == Reason(
        "order", "Job shop.a of the same order key cart comes before it and has not ended.", job="shop.a"
    )
    (held,) = await desk.claim("ann", 9)
    running = Reason("order", "Job shop.a of the same order key cart runs.", job="shop.a")
    assert (await why("b")).reasons == (running,)
    await desk.fail(held, attempts=9, seconds=HOUR)
    assert words(await why("b")) == ["order"], "it rests, and those behind it wait"
    assert await desk.claim() == []
    assert (await why("b")).position is None


async def test_a_full_platform_names_who_runs(shop: Desk) -> None:
    why = await served(shop)
    await shop.submit("a", "b", "c")
    (held,) = await shop.claim()
    waiting = await why("b")
    busy = Reason("busy", "kurly runs 1 job at a time, and kurly.a is running.", job="kurly.a")
    assert waiting.reasons == (busy,)
    assert words(await why("c")) == ["busy", "ahead"]
    await shop.complete(held)
    await shop.claim()


async def test_strict_order_names_the_job_that_nothing_starts_before(store: Store) -> None:
    desk = Desk(store, max_running=1, order="strict")
    why = await served(desk)
    await desk.submit("a", "b")
    (held,) = await desk.claim()
    await desk.fail(held, attempts=3, seconds=HOUR)
    told = "shop runs in strict order, and job shop.a waits for another attempt."
    assert (await why("b")).reasons == (Reason("strict", told, job="shop.a"),)
    assert words(await why("a")) == ["retry"]


async def test_a_lane_tells_where_its_slot_is_taken(store: Store) -> None:
    in_lane(store, "pages", "products")
    desks = [Desk(store, name, max_running=1, lane="goods") for name in ("pages", "products")]
    platforms = Platforms({desk.keys.platform: desk.policy for desk in desks})
    pages, products = desks
    explainer = WaitExplainer(pages.transitions, platforms, Presence(pages.transitions, platforms))
    await products.start("x")
    await pages.submit("a")
    await pages.beat("ann")
    waiting = await explainer.explain(pages.keys, await pages.record("a"), None, [])
    assert waiting is not None
    assert waiting.reasons == (Reason("lane", "The lane goods runs 1 job at a time, and 1 of products is running."),)


async def test_consumers_that_are_full_are_told_too(store: Store) -> None:
    desk = Desk(store, max_running_per_process=2)
    why = await served(desk)
    await desk.submit("a", "b", "c")
    await desk.claim("ann", 2)
    (busy,) = (await why("c")).reasons
    assert busy == Reason(
        "busy", "The consumers of shop run 2 jobs at a time, and shop.a, shop.b are running.", "shop.a"
    )


async def test_a_delay_and_a_retry_tell_until_when(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("later", run_at="2099-01-31T09:00:00Z")
    waiting = await why("later")
    until = "2099-01-31T09:00:00.000Z"
    assert waiting == WhyWaiting(None, False, (Reason("delay", f"It is not to start before {until}.", None, until),))
    await desk.fail(await desk.start("again"), attempts=3, seconds=HOUR)
    waiting = await why("again")
    assert words(waiting) == ["retry"]
    await desk.delay(await desk.start("put-off"), HOUR)
    assert words(await why("put-off")) == ["delay"]


async def test_a_job_that_is_due_stands_in_line_already(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a")
    await desk.submit("due", delay_seconds=HOUR)
    await desk.past_due("due")
    assert words(await why("due")) == ["next"]
    await desk.transitions.wake([(desk.keys, desk.policy)])
    assert words(await why("due")) == ["next"]
    assert words(await why("a")) == ["ahead"]


async def test_all_that_holds_is_told_at_once(store: Store) -> None:
    desk = Desk(store, max_running=1, rate=1, rate_seconds=HOUR, max_running_per_key=1)
    why = asking(desk)
    await desk.submit("a", "b", "c", limit_key="l", order_key="o")
    await desk.claim()
    await desk.transitions.pause(desk.keys, "somebody")
    assert words(await why("c")) == ["paused", "rate", "order", "limit", "busy", "ahead"]


async def test_far_behind_in_a_long_line_the_place_is_the_least_there_is(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit(*(f"j{number}" for number in range(1500)))
    last, middle = await why("j1400"), await why("j700")
    assert (last.position, last.exact) == (1401, True)
    assert (middle.position, middle.exact) == (101, False)
    assert middle.reasons == (Reason("ahead", "At least 100 jobs stand before it."),)


async def test_every_question_gets_a_new_look(desk: Desk) -> None:
    why = await served(desk)
    await desk.submit("a", "b")
    for _ in range(20):
        assert (await why("b")).position == 2
        (held,) = await desk.claim()
        assert (await why("b")).position == 1
        await desk.release(held)


async def test_a_corrupt_line_hides_no_job(desk: Desk, store: Store) -> None:
    await desk.submit("a")
    await store.command("SET", desk.keys.front("normal"), "x")
    assert await watching(desk).explain(desk.keys, await desk.record("a"), None, []) is None


async def test_a_job_that_does_not_wait_has_no_reasons(desk: Desk) -> None:
    explainer = watching(desk)
    held = await desk.start("a")
    assert await explainer.explain(desk.keys, await desk.record("a"), None, []) is None
    await desk.complete(held)
    assert await explainer.explain(desk.keys, await desk.record("a"), None, []) is None


async def test_text_where_a_number_belongs_hides_no_job(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    await desk.submit("a", limit_key="l", order_key="o")
    await store.command("HSET", desk.keys["limits"], "l", "many")
    assert await watching(desk).explain(desk.keys, await desk.record("a"), None, []) is None


async def test_a_count_that_is_not_a_whole_number_holds_a_job_up_as_it_does_in_a_claim(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    why = await served(desk)
    await desk.submit("a", limit_key="l", order_key="o")
    await store.command("HSET", desk.keys["limits"], "l", "1.5")
    assert words(await why("a")) == ["limit"]
    assert await desk.claim() == []


@pytest.mark.parametrize("value", ["many", "1.5"])
async def test_a_count_that_no_gate_asks_for_holds_nothing_up(desk: Desk, store: Store, value: str) -> None:
    why = await served(desk)
    await desk.submit("a", limit_key="l", order_key="o")
    await store.command("HSET", desk.keys["limits"], "l", value)
    assert words(await why("a")) == ["next"]


@pytest.mark.parametrize("value", ["inf", "1e300", "9999999999999999"])
async def test_a_hold_beyond_the_calendar_is_told_as_its_last_moment(desk: Desk, store: Store, value: str) -> None:
    await desk.submit("a")
    await store.command("HSET", desk.keys["control"], "held_until_ms", value)
    explainer = watching(desk)
    why = await explainer.explain(desk.keys, await desk.record("a"), None, [])
    assert why is not None
    assert [reason.until for reason in why.reasons if reason.reason == "held"] == ["9999-12-31T23:59:59.999Z"]


async def test_a_count_without_running_jobs_still_has_a_reason(store: Store) -> None:
    desk = Desk(store, max_running_per_key=1)
    why = await served(desk)
    await store.command("HSET", desk.keys["limits"], "l", 1)
    await desk.submit("a", limit_key="l")
    assert (await desk.claim()) == []
    assert words(await why("a")) == ["limit"]


async def test_all_that_run_are_counted_and_a_few_named(store: Store) -> None:
    desk = Desk(store, max_running=300)
    why = await served(desk)
    await desk.submit(*(f"j{number}" for number in range(300)))
    await desk.claim("ann", 300)
    await desk.submit("a")
    (reason,) = (await why("a")).reasons
    assert reason.detail.startswith("shop runs 300 jobs at a time, and shop.j")
    assert reason.detail.endswith(" and 297 more are running.")


async def test_leases_that_cannot_be_read_take_slots_too(store: Store) -> None:
    desk = Desk(store, max_running=1)
    why = await served(desk)
    await store.command("HSET", desk.keys["leases"], "n", "nonsense")
    await desk.submit("a")
    (reason,) = (await why("a")).reasons
    assert reason == Reason("busy", "shop runs 1 job at a time, and that many are running.")


async def test_slots_of_a_silent_consumer_are_not_those_of_the_others(store: Store) -> None:
    desk = Desk(store, max_running_per_process=1)
    line = desk.transitions.line
    await desk.submit("a", "b", "c")
    await desk.claim("ann")
    await desk.claim("bob")
    for owners, full in ((), False), (("ann",), True), (("ann", "bob"), True), (("ann", "bob", "cid"), False):
        assert (await line(desk.keys, "c", desk.policy, owners=owners)).processes_full is full


async def test_platforms_of_a_lane_share_the_slots_of_a_process(store: Store) -> None:
    in_lane(store, "pages", "products")
    pages, products = (Desk(store, name, max_running_per_process=1, lane="goods") for name in ("pages", "products"))
    await products.start("x")
    await pages.submit("a")
    seen = await pages.transitions.line(pages.keys, "a", pages.policy, ("products",), ("ann",))
    assert (seen.processes_full, seen.slots_full, seen.lane_full) == (True, False, False), "nothing else is limited"
