"""Errors as clients see them: from the handler on, bounded, and without what would let somebody in."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.outcomes import LONGEST_TRACEBACK, Delay, RateLimited, failure_of
from tailrace.consumers.testing import run_handler
from tailrace.streams.messages import Failure
from tailrace.streams.policies import Policy
from tests.consumers.offloaded import handles as plain_handles

mine = Handlers()
hooked = Handlers()


@mine("fails")
async def fails(attempt: Attempt[Any]) -> None:
    await deeper()


async def deeper() -> None:
    raise LookupError("no luck")


@mine("wrong-report")
async def wrong_report(attempt: Attempt[Any]) -> None:
    await attempt.progress(-1)


@mine("groups")
async def groups(attempt: Attempt[Any]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deeper)


@hooked.around
async def hook(attempt: Attempt[Any], call_next: Callable[[], Any]) -> None:
    await call_next()


hooked("fails")(fails)


async def error_of(handlers: Handlers, kind: str, args: Any = None) -> Failure:
    outcome = await run_handler(handlers, kind, args, policy=Policy(attempts=1))
    assert outcome.error
    return outcome.error


def first_frame(error: Failure) -> str:
    assert error.traceback
    lines = error.traceback.splitlines()
    assert lines[0].lstrip(" +|").startswith(("Traceback (most recent call last)", "Exception Group Traceback"))
    return lines[1].lstrip(" |")


@pytest.mark.parametrize(
    ("handlers", "kind", "file", "function"),
    [
        (mine, "fails", __file__, "fails"),
        (mine, "wrong-report", __file__, "wrong_report"),
        (mine, "groups", __file__, "groups"),
        (hooked, "fails", __file__, "hook"),
        (plain_handles, "thread-fails", "offloaded.py", "fails"),
        (plain_handles, "process-fails", "offloaded.py", "fails"),
    ],
)
async def test_a_traceback_begins_with_the_handler(handlers: Handlers, kind: str, file: str, function: str) -> None:
    frame = first_frame(await error_of(handlers, kind))
    assert file in frame
    assert frame.endswith(f"in {function}")


async def test_what_we_raise_ourselves_in_a_handler_is_traced_to_the_end() -> None:
    error = await error_of(mine, "wrong-report")
    assert "saying.py" in (error.traceback or ""), "where it was refused is worth knowing, behind the handler"
    assert error.type == "ValueError"


def test_an_error_without_any_frame_of_others_keeps_ours() -> None:
    assert failure_of(LookupError("no luck")).traceback == "LookupError: no luck\n"


def test_an_error_tells_no_password() -> None:
    said = "cannot reach http://user:hidden@llm.example:8000/v1 nor redis://:hidden@h"
    try:
        raise OSError(said)
    except OSError as error:
        failure = failure_of(error)
    assert "hidden" not in failure.message + (failure.traceback or "")
    assert "http://user:***@llm.example:8000/v1" in failure.message


def test_an_error_is_bounded() -> None:
    failure = failure_of(LookupError("x" * 100_000))
    assert len(failure.message) == 2000
    assert len(failure.traceback or "") == LONGEST_TRACEBACK


async def test_args_that_do_not_fit_are_told_in_a_sentence() -> None:
    for place in ("thread", "process"):
        error = await error_of(plain_handles, f"{place}-add", {"count": "many"})
        said = f"the args do not fit the kind {place}-add: args.count: must be a whole number, not a string"
        assert (error.type, error.message) == ("WrongArgs", said)


@pytest.mark.parametrize("raised", [Delay, RateLimited])
def test_a_pause_that_is_not_a_number_is_refused_with_its_value(raised: type[Delay]) -> None:
    with pytest.raises(TypeError, match="a number of seconds from 0 to ten years, not '60'"):
        raised("60")  # type: ignore[arg-type]
