"""Hooks around attempts: they see everything, and can hide nothing."""

import asyncio
import contextvars
from typing import Any

import pytest

from tailrace.consumers import Attempt, Delay, GiveUp, Handlers, SyncAttempt
from tailrace.consumers.middleware import CallNext, Hook
from tailrace.consumers.testing import run_handler
from tailrace.streams.errors import BadConfiguration, Cancelled, Lost
from tailrace.streams.states import Status
from tests.consumers.conftest import Bench, serving
from tests.consumers.offloaded import handles as offloaded

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


def set_of(hook: Hook, raises: BaseException | None = None) -> Handlers:
    handles = Handlers()
    handles.around(hook)

    @handles("kind")
    async def kind(attempt: Attempt[Any]) -> str:
        await attempt.progress(1)
        if raises:
            raise raises
        return "done"

    return handles


async def test_hooks_nest_in_the_order_of_registration_around_old_and_new_kinds() -> None:
    handles, told = Handlers(), list[str]()

    @handles("before")
    async def before(attempt: Attempt[Any]) -> None:
        told.append(attempt.job.kind)

    @handles.around
    async def outer(attempt: Attempt[Any], call_next: CallNext) -> None:
        told.append("outer in")
        await call_next()
        told.append("outer out")

    @handles.around
    async def inner(attempt: Attempt[Any], call_next: CallNext) -> None:
        told.append("inner in")
        await call_next()
        told.append("inner out")

    @handles("after")
    async def after(attempt: Attempt[Any]) -> None:
        told.append(attempt.job.kind)

    for kind in ("before", "after"):
        told.clear()
        assert (await run_handler(handles, kind)).status is Status.COMPLETED
        assert told == ["outer in", "inner in", kind, "inner out", "outer out"]


async def test_a_hook_sees_the_result_and_cannot_lose_it() -> None:
    seen = []

    async def hook(attempt: Attempt[Any], call_next: CallNext) -> str:
        seen.append((attempt.job.kind, attempt.number, await call_next()))
        return "not the result"

    outcome = await run_handler(set_of(hook), "kind", attempt=2)
    assert outcome.result == "done"
    assert seen == [("kind", 2, "done")]


async def test_a_hook_that_raises_fails_the_attempt() -> None:
    async def refuses(attempt: Attempt[Any], call_next: CallNext) -> None:
        raise GiveUp("not on a Sunday")

    async def complains(attempt: Attempt[Any], call_next: CallNext) -> None:
        await call_next()
        raise ValueError("I do not like the result")

    refused = await run_handler(set_of(refuses), "kind")
    assert (refused.status, refused.gave_up, refused.progress) == (Status.FAILED, True, ())
    complained = await run_handler(set_of(complains), "kind")
    assert complained.retried
    assert complained.error is not None
    assert complained.error.type == "ValueError"


async def swallows(attempt: Attempt[Any], call_next: CallNext) -> None:
    try:
        await call_next()
    except BaseException:
        return


async def translates(attempt: Attempt[Any], call_next: CallNext) -> None:
    try:
        await call_next()
    except BaseException as error:
        raise GiveUp("translated") from error


@pytest.mark.parametrize("hook", [swallows, translates])
@pytest.mark.parametrize("error", [Lost("many.a", 1), Cancelled("many.a", 1)])
async def test_a_hook_cannot_hide_that_the_job_is_lost_or_has_to_stop(hook: Hook, error: BaseException) -> None:
    assert (await run_handler(set_of(hook, error), "kind")).status is Status.SUPERSEDED


@pytest.mark.parametrize(
    ("error", "status"), [(Delay(5), Status.DELAYED), (KeyError("x"), Status.RETRYING), (GiveUp("x"), Status.FAILED)]
)
async def test_an_error_that_a_hook_keeps_to_itself_is_raised_all_the_same(
    error: BaseException, status: Status
) -> None:
    assert (await run_handler(set_of(swallows, error), "kind")).status is status


async def test_a_hook_may_translate_an_error() -> None:
    outcome = await run_handler(set_of(translates, KeyError("x")), "kind")
    assert (outcome.status, outcome.gave_up) == (Status.FAILED, True)


async def test_a_hook_that_swallows_a_cancel_does_not_keep_the_attempt_alive() -> None:
    handles = Handlers()
    handles.around(swallows)

    @handles("waits")
    async def waits(attempt: Attempt[Any]) -> None:
        await asyncio.sleep(60)

    assert (await run_handler(handles, "waits", cancel_after=0.05)).status is Status.CANCELLED
    timed_out = await run_handler(handles, "waits", timeout_seconds=0.05)
    assert timed_out.error is not None
    assert timed_out.error.type == "TimedOut"


async def test_a_hook_that_forgets_its_handler_is_told_so() -> None:
    async def forgets(attempt: Attempt[Any], call_next: CallNext) -> None: ...

    async def repeats(attempt: Attempt[Any], call_next: CallNext) -> None:
        await call_next()
        await call_next()

    for hook, part in ((forgets, "forgets.*call_next"), (repeats, "one call")):
        error = (await run_handler(set_of(hook), "kind")).error
        assert error is not None
        with pytest.raises(RuntimeError, match=part):
            raise RuntimeError(error.message)


async def test_context_set_by_a_hook_reaches_its_handler_also_in_a_thread() -> None:
    handles = Handlers()

    @handles.around
    async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
        tenant.set(attempt.args["tenant"])
        await call_next()

    @handles("loop")
    async def loop(attempt: Attempt[Any]) -> str:
        return tenant.get()

    @handles("thread", run_in="thread")
    def thread(attempt: SyncAttempt[Any]) -> str:
        return tenant.get()

    for kind in ("loop", "thread"):
        assert (await run_handler(handles, kind, {"tenant": "acme"})).result == "acme"


async def test_hooks_stay_with_their_own_handlers_when_sets_are_combined() -> None:
    mine, told = Handlers(), []

    @mine.around
    async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
        told.append(attempt.job.kind)
        await call_next()

    @mine("mine")
    async def my_own(attempt: Attempt[Any]) -> None: ...

    both = offloaded.under(mine)
    for kind in ("in-loop", "mine", "thread-where"):
        assert (await run_handler(both, kind)).status is Status.COMPLETED
    assert told == ["mine"]


@pytest.mark.parametrize("kind", ["thread-add", "process-add"])
async def test_hooks_are_around_threads_and_processes_too(kind: str) -> None:
    handles, seen = Handlers().under(offloaded), list[Any]()

    @handles.around
    async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
        await attempt.progress("from the hook")
        seen.append(await call_next())

    outcome = await run_handler(handles, kind, {"count": 1})
    assert outcome.result == {"count": 2}
    assert [report.step for report in outcome.progress] == ["from the hook"]
    assert len(seen) == 1


def test_a_hook_is_an_async_function() -> None:
    with pytest.raises(BadConfiguration, match=r"call_next.*plain"):

        @Handlers().around  # type: ignore[type-var]
        def plain(attempt: Attempt[Any], call_next: CallNext) -> None: ...


async def test_a_consumer_calls_hooks(bench: Bench) -> None:
    ends = []

    async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
        try:
            await call_next()
        except Exception as error:
            ends.append(repr(error))
            raise

    async with serving(bench.store, set_of(hook, GiveUp("no"))):
        events = await bench.end_of(await bench.submit("kind"))
    assert [event.status for event in events] == ["queued", "started", "progress", "failed"]
    assert ends == ["GiveUp('no')"]
