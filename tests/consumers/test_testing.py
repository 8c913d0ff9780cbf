"""Handlers run without a store, and end as they would with one."""

import asyncio
import re
import threading
from typing import Any

import pytest

from tailrace.consumers import Attempt, Delay, GiveUp, Handlers, RateLimited, SyncAttempt
from tailrace.consumers.testing import run_handler
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.producers import Flow
from tailrace.streams.policies import Policy
from tailrace.streams.states import Status
from tests.consumers.flowing import PLACES
from tests.consumers.flowing import handles as flowing
from tests.consumers.offloaded import Order
from tests.consumers.offloaded import handles as offloaded
from tests.support.eventually import eventually

handles = Handlers()
EXACT = Policy(jitter=0)


@handles("count")
async def count(attempt: Attempt[Order]) -> Order:
    for step in range(1, attempt.args.count + 1):
        await attempt.progress(step, of=attempt.args.count, data=[step])
        await attempt.progress(step, message="again")
    return Order(attempt.number)


@handles("raises", backoff=lambda failures: 7.0 * failures)
async def raises(attempt: Attempt[Any]) -> None:
    raise LookupError("no luck")


@handles("fails")
async def fails(attempt: Attempt[Any]) -> None:
    raise LookupError("no luck")


@handles("gives-up")
async def gives_up(attempt: Attempt[Any]) -> None:
    raise GiveUp("never")


@handles("delays")
async def delays(attempt: Attempt[Any]) -> None:
    raise (RateLimited if attempt.args.get("rate") else Delay)(12.5)


@handles("unkept")
async def unkept(attempt: Attempt[Any]) -> object:
    return object()


@handles("waits")
async def waits(attempt: Attempt[Any]) -> None:
    await attempt.progress(1)
    await asyncio.sleep(60)


@handles("stubborn")
async def stubborn(attempt: Attempt[Any]) -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await attempt.progress("tidied up")
    return "finished all the same"


async def test_a_completed_attempt_has_its_result_and_its_progress() -> None:
    outcome = await run_handler(handles, "count", {"count": 2}, attempt=3)
    assert outcome.status is Status.COMPLETED
    assert outcome.result == {"count": 3}
    assert [(report.step, report.of, report.data) for report in outcome.progress] == [(1, 2, [1]), (2, 2, [2])]
    assert (outcome.error, outcome.again_in_seconds, outcome.retried, outcome.gave_up) == (None, None, False, False)


async def test_args_may_be_given_as_their_struct() -> None:
    assert (await run_handler(handles, "count", Order(0))).result == {"count": 1}


@pytest.mark.parametrize(
    ("kind", "failures", "policy", "again"),
    [
        ("fails", 0, EXACT, 1.0),
        ("fails", 1, EXACT, 2.0),
        ("fails", 2, EXACT, None),
        ("fails", 0, Policy(attempts=1), None),
        ("fails", 3, Policy(attempts=9, jitter=0, backoff="fixed", backoff_seconds=5), 5.0),
        ("raises", 1, EXACT, 14.0),
        ("gives-up", 0, EXACT, None),
    ],
)
async def test_it_tells_whether_and_when_a_failure_is_tried_again(
    kind: str, failures: int, policy: Policy, again: float | None
) -> None:
    outcome = await run_handler(handles, kind, attempt=failures + 1, failures=failures, policy=policy)
    assert outcome.again_in_seconds == again
    assert outcome.retried == (again is not None)
    assert outcome.status is (Status.RETRYING if outcome.retried else Status.FAILED)
    assert outcome.gave_up == (kind == "gives-up")
    assert outcome.error is not None
    assert "test_testing.py" in (outcome.error.traceback or "")


@pytest.mark.parametrize(
    ("kind", "args", "error"),
    [("count", {"count": "many"}, "WrongArgs"), ("unkept", {}, "WrongResult"), ("nobody-knows", {}, "UnknownKind")],
)
async def test_what_does_not_fit_fails_for_good(kind: str, args: Any, error: str) -> None:
    outcome = await run_handler(handles, kind, args)
    assert (outcome.status, outcome.gave_up) == (Status.FAILED, True)
    assert outcome.error is not None
    assert outcome.error.type == error


@pytest.mark.parametrize("rate", [True, False])
async def test_a_delay_is_not_a_failure(rate: bool) -> None:
    outcome = await run_handler(handles, "delays", {"rate": rate})
    assert (outcome.status, outcome.again_in_seconds, outcome.error) == (Status.DELAYED, 12.5, None)


async def test_a_job_that_was_started_too_often_is_not_put_off_again() -> None:
    outcome = await run_handler(handles, "delays", attempt=100)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    assert outcome.error.type == "TooManyStarts"


@pytest.mark.parametrize("kind", ["waits", "stubborn"])
async def test_a_cancelled_attempt_ends_cancelled_whatever_it_does(kind: str) -> None:
    outcome = await run_handler(handles, kind, cancel_after=0.05)
    assert outcome.status is Status.CANCELLED
    assert len(outcome.progress) == 1


async def test_a_timeout_is_a_failure_that_is_tried_again() -> None:
    outcome = await run_handler(handles, "waits", timeout_seconds=0.05)
    assert outcome.retried
    assert outcome.error is not None
    assert outcome.error.type == "TimedOut"


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_plain_handlers_run_where_they_say(place: str) -> None:
    outcome = await run_handler(offloaded, f"{place}-show")
    assert outcome.status is Status.COMPLETED
    assert [report.step for report in outcome.progress] == [1, "named"]
    cancelled = await run_handler(offloaded, f"{place}-deaf", {"seconds": 2}, cancel_after=0.2)
    assert cancelled.status is Status.CANCELLED


async def test_nothing_is_left_behind() -> None:
    before = asyncio.all_tasks()
    await run_handler(offloaded, "thread-where")
    await run_handler(offloaded, "process-where")
    for thread in threading.enumerate():
        if thread.name.startswith("handler-"):
            thread.join(5)
            assert not thread.is_alive()
    assert asyncio.all_tasks() == before


async def test_a_thread_that_comes_back_too_late_is_let_go() -> None:
    handlers, go_on, names = Handlers(), threading.Event(), list[str]()

    @handlers("stays", run_in="thread")
    def stays(attempt: SyncAttempt[dict[str, Any]]) -> None:
        names.append(threading.current_thread().name)
        go_on.wait(20)

    outcome = await run_handler(handlers, "stays", policy=Policy(attempts=1, timeout_seconds=0.1))
    assert outcome.status is Status.FAILED
    (thread,) = [each for each in threading.enumerate() if each.name in names]
    go_on.set()

    async def gone() -> bool:
        return not thread.is_alive()

    await eventually("it is gone", gone)


def test_the_example_of_the_readme_runs() -> None:
    readme = (CHECKOUT / "consumers" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n([^`]*run_handler.*?)```", readme, flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, "README.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        asyncio.run(test())


@handles("flow")
async def flow(attempt: Attempt[Any]) -> Any:
    await attempt.sleep(60)
    pages = await attempt.spawn_many("page", [{"n": 1}, {"n": 2}], platform="kurly", result=int)
    texts = await attempt.join(pages, on_failure="ignore")
    try:
        said = await attempt.wait_for("approval", timeout=5)
    except TimeoutError:
        said = "too late"
    await attempt.submit("mail", {"to": "ann"})
    await attempt.checkpoint(len(texts))
    return [texts, said]


async def test_a_flow_is_tried_attempt_by_attempt() -> None:
    asleep = await run_handler(handles, "flow")
    assert (asleep.status, asleep.again_in_seconds) == (Status.DELAYED, 60)
    spawned = await run_handler(handles, "flow", attempt=2, saved=asleep.steps)
    assert (spawned.status, spawned.awaits) == (Status.AWAITING, "children")
    assert [(job.platform, job.kind, job.args, job.child) for job in spawned.brought] == [
        ("kurly", "page", {"n": 1}, True),
        ("kurly", "page", {"n": 2}, True),
    ]
    joined = await run_handler(
        handles, "flow", attempt=3, saved=asleep.steps, children={"page": lambda a: 10 // (a["n"] - 1)}
    )
    assert (joined.status, joined.awaits) == (Status.AWAITING, "approval")
    work = {"page": lambda args: 10 // (args["n"] - 1)}
    late = await run_handler(
        handles, "flow", attempt=4, saved=asleep.steps, children=work, signals={"approval": TimeoutError}
    )
    assert late.result == [[None, 10], "too late"]
    done = await run_handler(handles, "flow", attempt=4, saved=asleep.steps, children=work, signals={"approval": "yes"})
    assert done.result == [[None, 10], "yes"]
    assert done.brought[-1].kind == "mail"
    assert done.steps["@checkpoint checkpoint"] == 2


@pytest.mark.parametrize("place", PLACES)
async def test_a_job_with_children_known_in_advance_is_tried_with_what_they_give(place: str) -> None:
    leaf = Flow("single", "page", {"number": 1})
    tree = Flow("many", f"{place}-book", {"number": 100}, [leaf, Flow("many", "chapter", {"number": 2}, [leaf])])
    waits = await run_handler(flowing, tree)
    assert (waits.status, waits.awaits) == (Status.AWAITING, "children")
    assert [(job.kind, job.args) for job in waits.brought] == [("page", {"number": 1}), ("chapter", {"number": 2})]
    work = {"page": lambda args: args["number"], "chapter": lambda args: [args["number"]]}
    assert (await run_handler(flowing, tree, children=work)).result == [100, 1, [2]]
    failed = await run_handler(flowing, tree, children={**work, "chapter": lambda args: 1 / 0})
    assert failed.error
    assert (failed.status, failed.error.type) == (Status.FAILED, "ChildFailed")
    with pytest.raises(ValueError, match="args: a Flow has its own"):
        await run_handler(flowing, tree, {})
