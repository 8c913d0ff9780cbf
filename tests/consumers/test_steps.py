"""Steps: what one gave is saved under the fence, so that a later attempt goes on from there."""

from typing import Any

import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.testing import run_handler
from tailrace.streams.states import Status
from tests.consumers.conftest import Bench, serving
from tests.consumers.stepping import PLACES
from tests.consumers.stepping import handles as stepping


async def test_a_saved_step_does_not_run_again(bench: Bench) -> None:
    mine = Handlers()
    calls: list[str] = []

    def count(name: str) -> dict[str, int]:
        calls.append(name)
        return {"calls": len(calls)}

    async def later(name: str) -> tuple[str, int]:
        return name, count(name)["calls"]

    @mine("steps", backoff=lambda failures: 0.01)
    async def steps(attempt: Attempt[Any]) -> list[Any]:
        first = await attempt.step("first", count, "first")
        second = await attempt.step("second", later, "second")
        if attempt.number < 3:
            await attempt.step(f"try {attempt.number}", count, "try")
            raise RuntimeError("once more")
        return [first, second]

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("steps"))
    assert events[-1].attempt == 3
    assert events[-1].result == [{"calls": 1}, ["second", 2]]
    assert calls == ["first", "second", "try", "try"]


async def test_a_step_that_raises_is_not_saved() -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        return await attempt.step("first", lambda: 1 / 0)

    outcome = await run_handler(mine, "steps")
    assert (outcome.status, outcome.steps) == (Status.RETRYING, {})


async def test_a_handler_is_tried_with_what_was_saved_before() -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        return [await attempt.step("first", lambda: "new"), await attempt.step("second", lambda: "new")]

    outcome = await run_handler(mine, "steps", attempt=2, saved={"first": "old"})
    assert outcome.result == ["old", "new"]
    assert outcome.steps == {"first": "old", "second": "new"}


@pytest.mark.parametrize("name", ["", "x" * 65, 7, None])
async def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        return await attempt.step(name, lambda: 1)

    outcome = await run_handler(mine, "steps")
    assert outcome.error is not None
    assert outcome.error.type == "ValueError"


async def test_what_is_too_large_is_not_saved() -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        return await attempt.step("large", lambda: "x" * 300_000)

    outcome = await run_handler(mine, "steps")
    assert outcome.error is not None
    assert "at most 256 KB" in outcome.error.message


async def test_more_than_a_job_may_save_is_an_error_that_says_so(bench: Bench) -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        for number in range(70):
            await attempt.step(f"step {number}", lambda: "x" * 260_000)

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("steps", attempts=1))
    assert events[-1].error
    assert "all of the 16777216 bytes that max_step_bytes of its platform allows" in events[-1].error.message
    assert "step 'step 64' is not saved" in events[-1].error.message
    outcome = await run_handler(mine, "steps")
    assert outcome.error
    assert "max_step_bytes" in outcome.error.message
    assert len(outcome.steps) == 64


async def test_a_result_comes_back_as_its_annotation_says_wherever_the_handler_runs(bench: Bench) -> None:
    async with serving(bench.store, stepping):
        jobs = [await bench.submit(f"{place}-typed") for place in PLACES]
        histories = [await bench.end_of(job) for job in jobs]
    for events in histories:
        assert events[-1].attempt == 2
        assert events[-1].result == {"one": "Found", "some": "Found", "two": "tuple", "maybe": "Found", "step": 6}


async def test_the_next_attempt_shows_which_steps_it_took_over(bench: Bench) -> None:
    async with serving(bench.store, stepping):
        events = await bench.end_of(await bench.submit("loop-typed"))
    shown = [(event.attempt, event.step, event.message) for event in events if event.status is Status.PROGRESS]
    assert shown == [(2, "resumed", "saved before: maybe, one, some, two")]


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_wrong_use_is_refused_with_a_sentence(place: str) -> None:
    outcome = await run_handler(stepping, f"{place}-misused")
    twice, large, unkept, awaited, ours = outcome.result
    assert "step 'twice' is used twice in this attempt; give each step its own name" in twice
    assert "the result of step 'large' has 300002 bytes; at most 256 KB are kept: store it elsewhere" in large
    assert unkept.startswith("TypeError: the result of step 'unkept': cannot be written as JSON")
    assert "an async function cannot run in a thread or a process" in awaited
    assert "'@ours' begins with @" in ours
    assert outcome.steps == {"twice": {"step": 1, "attempt": 1}}


async def test_a_result_that_does_not_fit_its_annotation_is_refused_and_not_saved() -> None:
    mine = Handlers()

    def wrong() -> int:
        return "one"  # type: ignore[return-value]

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        return await attempt.step("wrong", wrong)

    outcome = await run_handler(mine, "steps")
    assert outcome.error is not None
    assert outcome.error.message == ("the result of step 'wrong' does not fit its type int: Expected `int`, got `str`")
    assert outcome.steps == {}


async def test_a_step_that_raised_may_be_tried_again_in_the_same_attempt() -> None:
    mine = Handlers()
    tries: list[int] = []

    def flaky() -> int:
        tries.append(1)
        return 1 // (len(tries) - 1)

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        try:
            return await attempt.step("flaky", flaky)
        except ZeroDivisionError:
            return await attempt.step("flaky", flaky)

    assert (await run_handler(mine, "steps")).result == 1
