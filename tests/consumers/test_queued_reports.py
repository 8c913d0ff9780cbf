"""Reports that are only queued: they go together, in order, before the end, and what is refused is raised later."""

import asyncio
from typing import Any

import anyio
import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.attempts.saying import MOST_QUEUED
from tailrace.consumers.testing import run_handler
from tailrace.streams.errors import Cancelled, Lost
from tailrace.streams.history.events import Event, read_body
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Claim
from tailrace.streams.operations import Operation
from tailrace.streams.policies import Policy
from tailrace.streams.states import Status
from tailrace.streams.store.commit import Heard
from tailrace.streams.store.connection import Store
from tests.consumers.conftest import Bench, serving
from tests.consumers.offloaded import handles as plain_handles
from tests.support.builders import Desk, take_away
from tests.support.faults import Link

SLOW_BEATS = {"TAILRACE_BEAT_SECONDS": "30", "TAILRACE_DEADLINE_SECONDS": "90"}  # only refused reports can tell


def steps(events: list[Event]) -> list[Any]:
    return [event.step for event in events if event.status == Status.PROGRESS]


def calls(events: list[Event]) -> int:
    """How many calls of the store have written these: the ids of one call begin with the same microsecond."""
    return len({str(event.id).partition("-")[2][:16] for event in events})


async def test_queued_reports_and_the_end_are_one_call(bench: Bench) -> None:
    mine = Handlers()

    @mine("queue")
    async def queue(attempt: Attempt[Any]) -> str:
        for step in range(10):
            await attempt.progress(step, wait=False)
        return "done"

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("queue"))
    assert steps(events) == list(range(10))
    assert (events[-1].status, events[-1].result) == ("completed", "done")
    assert calls(events[2:]) == 1


async def test_what_is_reported_while_the_store_answers_goes_together(bench: Bench) -> None:
    mine = Handlers()

    @mine("gather")
    async def gather(attempt: Attempt[Any]) -> None:
        await asyncio.gather(*(attempt.progress(step) for step in range(10)))

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("gather"))
    assert steps(events) == list(range(10))
    assert calls(events[2:-1]) == 2


async def test_a_failure_comes_after_the_reports_that_are_queued(bench: Bench) -> None:
    mine = Handlers()

    @mine("fail")
    async def fail(attempt: Attempt[Any]) -> None:
        await attempt.progress(1)
        await attempt.progress(2, wait=False)
        await asyncio.sleep(0)
        await attempt.progress(3, wait=False)
        raise LookupError

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("fail", attempts=1))
    assert steps(events) == [1, 2, 3]
    assert events[-1].status == "failed"


async def test_after_a_flush_all_is_shown_and_other_writes_keep_their_place(bench: Bench) -> None:
    mine = Handlers()
    seen: list[list[Any]] = []

    @mine("flush")
    async def flush(attempt: Attempt[Any]) -> None:
        for step in range(50):
            await attempt.progress(step, wait=False)
        await attempt.flush()
        seen.append(steps(await bench.events(attempt.job.id)))
        await attempt.progress(50, wait=False)
        await attempt.checkpoint(1)
        seen.append(steps(await bench.events(attempt.job.id)))
        await attempt.progress(51, wait=False)
        await attempt.progress(52)
        seen.append(steps(await bench.events(attempt.job.id)))

    async with serving(bench.store, mine):
        await bench.end_of(await bench.submit("flush"))
    assert seen == [list(range(50)), list(range(51)), list(range(53))]


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_a_plain_handler_queues_as_well(place: str) -> None:
    outcome = await run_handler(plain_handles, f"{place}-queues", policy=Policy(max_events=10))
    assert outcome.status is Status.COMPLETED, outcome.error
    assert [event.step for event in outcome.progress] == list(range(8))
    assert "max_events" in outcome.result


@pytest.mark.parametrize("learn", ["progress", "wait=False", "flush", "step"])
async def test_the_call_after_a_lost_report_raises(bench: Bench, learn: str) -> None:
    mine = Handlers()
    entered, go_on, learnt = anyio.Event(), anyio.Event(), anyio.Event()

    @mine("lose")
    async def lose(attempt: Attempt[Any]) -> str:
        if attempt.number > 1:
            return "second"
        await attempt.progress(0)
        entered.set()
        await go_on.wait()
        await attempt.progress(1, wait=False)
        await attempt.progress(2, wait=False)
        try:
            if learn == "wait=False":
                await attempt.quiet()
                await attempt.progress(3, wait=False)
            elif learn == "step":
                await attempt.step("three", int)
            else:
                await (attempt.flush() if learn == "flush" else attempt.progress(3))
        except Lost:
            learnt.set()
            raise
        return "first"

    async with serving(bench.store, mine, **SLOW_BEATS):
        job_id = await bench.submit("lose")
        await entered.wait()
        await take_away(Desk(bench.store, "many"))
        go_on.set()
        with anyio.fail_after(30):
            await learnt.wait()
        events = await bench.end_of(job_id)
    assert steps(events) == [0]
    assert events[-1].result == "second"


async def test_a_handler_that_returns_before_it_hears_of_its_loss_has_no_end(bench: Bench) -> None:
    mine = Handlers()
    entered, go_on = anyio.Event(), anyio.Event()

    @mine("unaware")
    async def unaware(attempt: Attempt[Any]) -> int:
        if attempt.number == 1:
            await attempt.progress(0)
            entered.set()
            await go_on.wait()
        await attempt.progress(1, wait=False)
        return attempt.number

    async with serving(bench.store, mine, **SLOW_BEATS):
        job_id = await bench.submit("unaware")
        await entered.wait()
        await take_away(Desk(bench.store, "many"))
        go_on.set()
        events = await bench.end_of(job_id)
    assert [(event.attempt, event.status) for event in events[1:]] == [
        *((1, "started"), (1, "progress"), (1, "superseded")),
        *((2, "started"), (2, "progress"), (2, "completed")),
    ]


async def test_a_job_that_was_asked_to_stop_says_so_at_the_next_call(bench: Bench) -> None:
    mine = Handlers()
    entered, go_on, heard = anyio.Event(), anyio.Event(), []

    @mine("stop")
    async def stop(attempt: Attempt[Any]) -> None:
        entered.set()
        await go_on.wait()
        await attempt.progress(1, wait=False)
        try:
            await attempt.flush()
        except Cancelled as error:
            heard.append(error)
            raise

    async with serving(bench.store, mine, **SLOW_BEATS):
        job_id = await bench.submit("stop")
        await entered.wait()
        assert await Desk(bench.store, "many").cancel(job_id.partition(".")[2]) == "cancelling"
        go_on.set()
        events = await bench.end_of(job_id)
    assert heard
    assert steps(events) == []
    assert events[-1].status == "cancelled"


async def test_a_report_without_room_is_raised_later_and_its_step_may_come_again(bench: Bench) -> None:
    heard: list[str] = []
    mine = Handlers()

    @mine("chatty")
    async def chatty(attempt: Attempt[Any]) -> None:
        for step in range(12):
            await attempt.progress(step, wait=False)
        for _ in range(2):
            try:
                await attempt.flush()
            except ValueError as error:
                heard.append(str(error))
        try:
            await attempt.progress(11)
        except ValueError as error:
            heard.append(str(error))

    outcome = await run_handler(mine, "chatty", policy=Policy(max_events=10))
    assert [event.step for event in outcome.progress] == list(range(8))
    assert ["step 8" in heard[0], "step 11" in heard[1], len(heard)] == [True, True, 2]


async def test_a_report_whose_answer_was_lost_is_shown_once(bench: Bench) -> None:
    mine = Handlers()

    @mine("again")
    async def again(attempt: Attempt[Any]) -> None:
        for step in range(30):
            await attempt.progress(step, wait=False)
            await asyncio.sleep(0)

    async with Link(bench.store.url) as link, Store(link.url) as far, serving(far, mine):
        await bench.end_of(await bench.submit("again"))  # the far consumer knows its scripts
        for part in (b"report", b"complete"):
            link.drop_reply(to=part)
            events = await bench.end_of(await bench.submit("again"))
            assert link.dropped.is_set()
            assert steps(events) == list(range(30))
            assert events[-1].status == "completed"


class Silent:
    """A runner that hands nothing on: what the store would answer is for the test to say."""

    def __init__(self) -> None:
        self.said: list[tuple[Operation, Heard]] = []

    def say(self, operation: Operation, heard: Heard, times: float = 1) -> None:
        self.said.append((operation, heard))

    def steps(self) -> list[Any]:
        """Those of the last operation."""
        return [read_body("shop.a", event).step for event in self.said[-1][0].named["events"].split(b"\n")]


def attempt_at(desk: Any) -> Attempt[Any]:
    return Attempt(Claim("nonce", "a", 1, "k", b"{}"), {}, "ann", PlatformKeys("shop"), Policy(), desk)


async def test_the_queue_is_bounded_while_the_store_is_silent() -> None:
    desk = Silent()
    attempt = attempt_at(desk)
    first = asyncio.create_task(attempt.progress(0))
    await asyncio.sleep(0)
    for step in range(1, MOST_QUEUED + 1):
        async with asyncio.timeout(5):
            await attempt.progress(step, wait=False)
    waits = asyncio.create_task(attempt.progress(1000, wait=False))
    large = asyncio.create_task(attempt.progress(1001, wait=False, data="x" * 100_000))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waits.done()
    assert [len(desk.said), desk.steps()] == [1, [0]]
    await answer(desk, b"shown")
    assert desk.steps() == list(range(1, MOST_QUEUED + 1))
    assert (first.done(), waits.done()) == (True, False)
    await answer(desk, b"shown")
    assert desk.steps() == [1001]
    assert (waits.done(), large.done()) == (True, False)
    await answer(desk, b"shown")
    assert desk.steps() == [1000]
    assert large.done()
    desk.said[-1][1](b"shown")
    await asyncio.gather(first, waits, large)
    assert [operation.named["number"] for operation, _ in desk.said] == [1, 41, 42, 43]


async def answer(desk: Silent, word: bytes) -> None:
    desk.said[-1][1](word)
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("first", ["reports", "checkpoint"])
async def test_reports_and_other_writes_of_one_attempt_take_turns(first: str) -> None:
    """Neither a task that reports without a pause nor one that saves without a pause keeps the other from its turn."""
    desk = Silent()
    attempt = attempt_at(desk)

    async def report(name: str) -> None:
        for step in range(100):
            await attempt.progress(f"{name}-{step}")

    async def save(name: str) -> None:
        for step in range(100):
            await attempt.checkpoint(step, name=name)

    verbs = [report, report, save, save] if first == "reports" else [save, save, report, report]
    tasks = [asyncio.create_task(verb(name)) for verb, name in zip(verbs, "abcd", strict=True)]
    await asyncio.sleep(0)
    for _ in range(12):
        name = desk.said[-1][0].name
        await answer(desk, b"shown" if name == "report" else b"saved")
    names = [operation.name for operation, _ in desk.said]
    assert min(names.count("report"), names.count("checkpoint")) >= 4, names
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
