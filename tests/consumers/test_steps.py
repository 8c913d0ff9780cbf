"""Steps: what one gave is saved under the fence, so that a later attempt goes on from there."""

from typing import Any

import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.testing import run_handler
from tailrace.streams.states import Status
from tests.consumers.conftest import Bench, serving


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
        return [first, second, await attempt.step("first", count, "never")]

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("steps"))
    assert events[-1].attempt == 3
    assert events[-1].result == [{"calls": 1}, ["second", 2], {"calls": 1}]
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
        return await attempt.step("large", lambda: "x" * 2_000_000)

    outcome = await run_handler(mine, "steps")
    assert outcome.error is not None
    assert "1 MB" in outcome.error.message


async def test_more_than_a_job_may_save_is_an_error_that_says_so(bench: Bench) -> None:
    mine = Handlers()

    @mine("steps")
    async def steps(attempt: Attempt[Any]) -> Any:
        for number in range(20):
            await attempt.step(f"step {number}", lambda: "x" * 1_000_000)

    async with serving(bench.store, mine):
        events = await bench.end_of(await bench.submit("steps", attempts=1))
    assert events[-1].error
    assert "all of the 16777216 bytes that max_step_bytes of its platform allows" in events[-1].error.message
    assert "step 'step 16' is not saved" in events[-1].error.message
    outcome = await run_handler(mine, "steps")
    assert outcome.error
    assert "max_step_bytes" in outcome.error.message
    assert len(outcome.steps) == 16
