"""What becomes of an attempt: its result, its error, or its silence."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from msgspec import Struct

from tailrace.consumers import Attempt, GiveUp, Handlers
from tailrace.producers import Submission
from tailrace.streams.errors import Lost
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms, Policy
from tailrace.streams.store.connection import Store
from tests.consumers.conftest import Bench, serving, standing
from tests.support.attempts import AttemptTransitions
from tests.support.builders import Desk, take_away
from tests.support.eventually import eventually

handles = Handlers()


class Order(Struct):
    count: int


@handles("add")
async def add(attempt: Attempt[Order]) -> Order:
    return Order(attempt.args.count + 1)


@handles("show")
async def show(attempt: Attempt[Any]) -> dict[str, Any]:
    await attempt.progress(1, of=4, message="one", data={"a": [1]})
    await attempt.progress(1, of=4, message="one again")
    await attempt.progress("named")
    return {"key": attempt.idempotency_key("pay"), "number": attempt.number, "id": attempt.job.id}


@handles("raise")
async def fails(attempt: Attempt[Any]) -> None:
    raise RuntimeError("no \udcff luck")


@handles("exit")
async def exits(attempt: Attempt[Any]) -> None:
    sys.exit(3)


@handles("cancel-itself")
async def cancels_itself(attempt: Attempt[Any]) -> None:
    task = asyncio.ensure_future(asyncio.sleep(10))
    task.cancel()
    await task


class Rude(BaseException):
    pass


@handles("rude")
async def rude(attempt: Attempt[Any]) -> None:
    raise Rude("not even an Exception")


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError


@handles("speechless")
async def speechless(attempt: Attempt[Any]) -> None:
    raise Speechless


class Picky(Struct):
    count: int

    def __post_init__(self) -> None:
        raise KeyError("count")


@handles("picky")
async def picky(attempt: Attempt[Picky]) -> None: ...


class Hollow(Struct):
    count: int


@handles("hollow")
async def hollow(attempt: Attempt[Any]) -> Hollow:
    result = Hollow(1)
    del result.count
    return result


@handles("unkept")
async def unkept(attempt: Attempt[Any]) -> object:
    return object()


@handles("large")
async def large(attempt: Attempt[Any]) -> str:
    return "x" * 1_100_000


@handles("large-report")
async def large_report(attempt: Attempt[Any]) -> None:
    await attempt.progress(1, data="x" * 1_100_000)


@handles("wrong-step")
async def wrong_step(attempt: Attempt[Any]) -> None:
    await attempt.progress(1.5)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """A consumer with these handlers that outlives a test."""
    async with standing(tmp_path_factory.mktemp("served"), handles) as bench:
        yield bench


async def test_a_result_is_the_last_event(served: Bench) -> None:
    events = await served.end_of(await served.submit("add", {"count": 41}))
    assert [event.status for event in events] == ["queued", "started", "completed"]
    assert events[-1].result == {"count": 42}


async def test_each_step_of_an_attempt_is_shown_once(served: Bench) -> None:
    events = await served.end_of(await served.submit("show", key="k"))
    assert [(event.status, event.step) for event in events[2:]] == [
        ("progress", 1),
        ("progress", "named"),
        ("completed", None),
    ]
    assert (events[2].of, events[2].message, events[2].data) == (4, "one", {"a": [1]})
    assert events[-1].result == {"key": "many.k/pay", "number": 1, "id": "many.k"}


@pytest.mark.parametrize(
    ("kind", "args", "error", "part"),
    [
        ("raise", {}, "RuntimeError", "luck"),
        ("exit", {}, "SystemExit", "3"),
        ("cancel-itself", {}, "CancelledError", ""),
        ("rude", {}, "Rude", "not even"),
        ("speechless", {}, "Speechless", "__str__"),
        ("picky", {"count": 1}, "WrongArgs", "count"),
        ("hollow", {}, "WrongResult", "JSON"),
        ("unkept", {}, "WrongResult", "JSON"),
        ("large", {}, "WrongResult", "1 MB"),
        ("large-report", {}, "ValueError", "1 MB"),
        ("wrong-step", {}, "TypeError", "whole number or a name"),
        ("add", {"count": "many"}, "WrongArgs", "count"),
        ("nobody-knows", {}, "UnknownKind", "add, cancel-itself"),
    ],
)
async def test_whatever_goes_wrong_ends_the_job_failed_and_says_why(
    served: Bench, kind: str, args: dict[str, Any], error: str, part: str
) -> None:
    last = (await served.end_of(await served.submit(kind, args, attempts=1)))[-1]
    good = (await served.end_of(await served.submit("add", {"count": 1})))[-1]
    assert last.status == "failed"
    assert last.error is not None
    assert last.error.type == error
    assert part in last.error.message
    assert good.status == "completed"


async def test_an_attempt_that_lost_its_job_learns_it_at_its_next_report_and_is_mute(bench: Bench) -> None:
    mine = Handlers()
    entered, go_on, learnt = anyio.Event(), anyio.Event(), anyio.Event()

    @mine("wait")
    async def wait(attempt: Attempt[Any]) -> str:
        if attempt.number > 1:
            return "second"
        entered.set()
        await go_on.wait()
        try:
            await attempt.progress(1)
        except Lost:
            learnt.set()
            raise
        return "first"

    # Beats so rare that only the refused report can tell.
    async with serving(bench.store, mine, TAILRACE_BEAT_SECONDS="30", TAILRACE_DEADLINE_SECONDS="90"):
        job_id = await bench.submit("wait")
        await entered.wait()
        await take_away(Desk(bench.store, "many"))
        go_on.set()
        events = await bench.end_of(job_id)
        with anyio.fail_after(5):
            await learnt.wait()
        await anyio.sleep(0.1)  # time for a write that must not come
        assert await bench.events(job_id) == events
    assert [(e.attempt, e.status) for e in events[1:]] == [
        (1, "started"),
        (1, "superseded"),
        (2, "started"),
        (2, "completed"),
    ]
    assert events[-1].result == "second"


async def test_the_heart_tells_a_waiting_attempt_that_its_job_is_lost(bench: Bench) -> None:
    mine = Handlers()
    entered, cancelled = anyio.Event(), anyio.Event()

    @mine("wait")
    async def wait(attempt: Attempt[Any]) -> None:
        if attempt.number == 1:
            entered.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

    async with serving(bench.store, mine):
        job_id = await bench.submit("wait")
        await entered.wait()
        await take_away(Desk(bench.store, "many"))
        with anyio.fail_after(5):
            await cancelled.wait()
        assert (await bench.end_of(job_id))[-1].attempt == 2


async def test_the_clean_up_of_a_lost_attempt_is_not_cancelled_again(bench: Bench) -> None:
    mine = Handlers()
    entered, cleaned = anyio.Event(), anyio.Event()
    cancels = 0

    @mine("tidy")
    async def tidy(attempt: Attempt[Any]) -> None:
        nonlocal cancels
        if attempt.number > 1:
            return
        entered.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            cancels += 1
        try:
            await asyncio.sleep(1.0)  # several beats
            cleaned.set()
        except asyncio.CancelledError:
            cancels += 1

    async with serving(bench.store, mine):
        await bench.submit("tidy")
        await entered.wait()
        await take_away(Desk(bench.store, "many"))
        with anyio.fail_after(10):
            await cleaned.wait()
    assert cancels == 1


async def test_a_lost_attempt_that_does_not_stop_gives_its_slot_back(bench: Bench) -> None:
    mine = Handlers()
    entered, over = anyio.Event(), asyncio.Event()

    @mine("deaf")
    async def deaf(attempt: Attempt[Any]) -> None:
        entered.set()
        while attempt.number == 1 and not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async with serving(bench.store, mine, TAILRACE_OBEY_SECONDS="0.3"):
        job_id = await bench.submit("deaf", platform="single")  # which has one slot in this process
        await entered.wait()
        await take_away(Desk(bench.store, "single"))
        events = await bench.end_of(job_id)
        over.set()
    assert [(event.attempt, event.status) for event in events[-2:]] == [(2, "started"), (2, "completed")]


async def test_a_lease_nobody_here_runs_is_handed_back(bench: Bench) -> None:
    async with serving(bench.store, handles) as (_, settings):
        keys, transitions = PlatformKeys("single"), AttemptTransitions(bench.store)
        await bench.end_of(await bench.submit("add", {"count": 1}, platform="single"))
        # A claim in its name whose answer it never hears.
        await transitions.submit([(_job("stray"), "f")])
        claims = await transitions.claim(keys, settings.owner, 2, Policy(max_running=1), ["unheard"])
        if claims:  # the consumer itself may have been faster
            events = await bench.end_of("single.stray")
            assert [e.status for e in events] == ["queued", "started", "superseded", "started", "completed"]
            assert events[2].reason == "released"


def _job(key: str) -> Any:
    from tailrace.streams.messages import Job

    return Job("single", key, "add", b'{"count":1}')


async def test_reports_made_at_once_are_all_shown(bench: Bench) -> None:
    mine = Handlers()

    @mine("at-once")
    async def at_once(attempt: Attempt[Any]) -> None:
        await asyncio.gather(*(attempt.progress(number) for number in range(10)))

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("at-once"))
    assert sorted(event.step for event in events if isinstance(event.step, int)) == list(range(10))


async def test_a_report_that_was_refused_may_be_made_again_corrected(bench: Bench) -> None:
    mine = Handlers()

    @mine("corrected")
    async def corrected(attempt: Attempt[Any]) -> None:
        try:
            await attempt.progress(1, data=object())
        except TypeError:
            await attempt.progress(1, data="corrected")

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("corrected"))
    assert [event.data for event in events if event.step == 1] == ["corrected"]


async def test_nothing_is_claimed_before_the_heart_has_beaten(bench: Bench) -> None:
    mine = Handlers()
    beats: list[Any] = []

    @mine("look")
    async def look(attempt: Attempt[Any]) -> None:
        beats.append(await bench.store.command("HGET", PlatformKeys("many")["beats"], attempt.worker))

    await bench.submit("look", key="first")
    async with serving(bench.store, mine):
        await bench.end_of("many.first")
    assert beats[0] is not None


async def test_a_corrupt_job_does_not_keep_others_from_being_taken_over(bench: Bench) -> None:
    keys, transitions = PlatformKeys("many"), AttemptTransitions(bench.store)
    for key in ("corrupt", "whole"):
        await bench.submit("add", {"count": 1}, key=key)
    claims = await transitions.claim(keys, "dead", 0.5, Policy(), ["one", "two"])
    assert [claim.key for claim in claims] == ["corrupt", "whole"]
    await bench.store.command("SET", keys.record("corrupt"), "by hand")
    await bench.store.command("HSET", keys["leases"], "strange", "by hand")
    async with serving(bench.store, handles):
        events = await bench.end_of("many.whole")
    assert [(event.attempt, event.status) for event in events[-2:]] == [(2, "started"), (2, "completed")]


async def test_any_options_of_the_address_leave_the_protocol_alone(bench: Bench) -> None:
    async with Store(f"{bench.store.url}?protocol=3") as store:
        assert isinstance(await store.command("HGETALL", "nothing"), list)


async def test_a_consumer_claims_no_faster_than_its_outcomes_are_settled(bench: Bench) -> None:
    mine, held = Handlers(), list[int]()

    @mine("gives-up")
    async def gives_up(attempt: Attempt[Any]) -> None:
        if attempt.args["n"] % 20 == 0:
            held.append(await bench.store.command("HLEN", PlatformKeys("many")["leases"]))
        raise GiveUp("at once")  # a call holds fewer of these than a claim brings

    slots = 100
    await bench.producer.submit_many([Submission("many", "gives-up", {"n": n}) for n in range(400)])
    async with serving(bench.store, mine, Platforms({"many": Policy(max_running_per_process=slots)})):

        async def all_failed() -> bool:
            return bool(await bench.store.command("ZCARD", PlatformKeys("many")["ended_failed"]) == 400)

        await eventually("all have failed", all_failed)
    assert max(held) <= slots
