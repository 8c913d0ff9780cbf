"""Reports that no client could show: refused in the handler, by the name of the argument, before anything is sent."""

from typing import Any, NoReturn

import pytest

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.testing import run_handler
from tailrace.streams.history.events import percent
from tailrace.streams.policies import Policy
from tailrace.streams.states import Status
from tests.consumers.offloaded import handles as plain_handles


class Loop:
    """A value that JSON cannot carry, and whose own words fail."""

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no words")


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)

WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a negative step": ({"step": -1}, ValueError, "step: "),
    "a negative step of some": ({"step": -1, "of": 5}, ValueError, "step: "),
    "a step beyond": ({"step": 6, "of": 5}, ValueError, "step: 6 is beyond of=5"),
    "no number": ({"step": float("nan")}, TypeError, "step: "),
    "half a step": ({"step": 1.5}, TypeError, "step: "),
    "no step": ({"step": None}, TypeError, "step: "),
    "true": ({"step": True}, TypeError, "step: "),
    "a list": ({"step": [1]}, TypeError, "step: "),
    "an empty name": ({"step": ""}, ValueError, "step: "),
    "a long name": ({"step": "x" * 65}, ValueError, "step: "),
    "half a character as a name": ({"step": "\ud800"}, ValueError, "step: "),
    "a huge step": ({"step": 10**5000}, ValueError, "step: "),
    "of nothing": ({"step": 0, "of": 0}, ValueError, "of: "),
    "of less than nothing": ({"step": 1, "of": -5}, ValueError, "of: "),
    "of infinity": ({"step": 1, "of": float("inf")}, TypeError, "of: "),
    "of a word": ({"step": 1, "of": "5"}, TypeError, "of: "),
    "of true": ({"step": 1, "of": True}, TypeError, "of: "),
    "of too many": ({"step": 1, "of": 2**53}, ValueError, "of: "),
    "a number as a message": ({"step": 1, "message": 5}, TypeError, "message: "),
    "bytes as a message": ({"step": 1, "message": b"x"}, TypeError, "message: "),
    "half a character as a message": ({"step": 1, "message": "a\ud800"}, ValueError, "message: "),
    "an object as data": ({"step": 7, "data": object()}, TypeError, "data: "),
    "data with a set of objects": ({"step": 7, "data": {"a": {object()}}}, TypeError, "data: "),
    "data without words": ({"step": 7, "data": Loop()}, TypeError, "data: "),
    "half a character as data": ({"step": 7, "data": ["\ud800"]}, ValueError, "data: "),
    "an endless list as data": ({"step": 7, "data": ENDLESS}, ValueError, "data: "),
}


@pytest.mark.parametrize(("report", "kind", "part"), WRONG.values(), ids=WRONG)
async def test_what_nobody_could_show_is_refused_and_not_sent(
    report: dict[str, Any], kind: type[Exception], part: str
) -> None:
    heard: list[Exception] = []
    mine = Handlers()

    @mine("wrong")
    async def wrong(attempt: Attempt[Any]) -> str:
        await attempt.progress(1, of=2)
        try:
            await attempt.progress(**report)
        except (TypeError, ValueError) as error:
            heard.append(error)
        await attempt.progress(2, of=2, message="corrected")
        return "goes on"

    outcome = await run_handler(mine, "wrong")
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "goes on")
    assert [event.step for event in outcome.progress] == [1, 2]
    assert [type(error) for error in heard] == [kind]
    assert str(heard[0]).startswith(part)
    assert len(str(heard[0])) < 300


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_a_plain_handler_hears_the_same(place: str) -> None:
    cases = {name: case for name, case in WRONG.items() if "data" not in name and "huge" not in name}
    given = [
        {**report, **({"of": "inf"} if report.get("of") == float("inf") else {})}
        for report, _, _ in cases.values()
        if report["step"] == report["step"]  # JSON has no NaN
    ]
    given = [report for report in given if not any(half(value) for value in report.values())]
    outcome = await run_handler(plain_handles, f"{place}-told", given, policy=Policy(attempts=1))
    assert outcome.status is Status.COMPLETED, outcome.error
    assert [event.step for event in outcome.progress] == ["the end"]
    names = [answer.split(": ")[1] for answer in outcome.result]
    assert set(names) == {"step", "of", "message"}
    assert len(names) == len(given)


def half(value: Any) -> bool:
    """What JSON cannot carry into a worker process."""
    return isinstance(value, bytes) or (isinstance(value, str) and not value.isascii())


@pytest.mark.parametrize(
    ("step", "of", "shown"),
    [(0, None, 0.0), (5, None, 5.0), (1500, None, 100.0), (-3, None, 0.0), (7, 5, 100.0), (-1, 5, 0.0), (1, 3, 33.3)],
)
def test_a_share_is_never_outside_of_what_can_be_shown(step: int, of: int | None, shown: float) -> None:
    assert percent(step, of) == shown


def test_a_share_of_nothing_is_all_of_it() -> None:
    assert percent(0, 0) == percent(3, -1) == 100


async def test_a_report_beyond_the_bound_of_events_is_an_error_that_says_what_to_do() -> None:
    heard: list[str] = []
    mine = Handlers()

    @mine("chatty")
    async def chatty(attempt: Attempt[Any]) -> str:
        for step in range(20):
            try:
                await attempt.progress(step)
            except ValueError as error:
                heard.append(str(error))
        return "goes on"

    outcome = await run_handler(mine, "chatty", policy=Policy(max_events=10))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "goes on")
    assert len(outcome.progress) == 8  # after `queued` and `started`
    assert len(heard) == 12
    assert "10 events" in heard[0]
    assert "max_events" in heard[0]
