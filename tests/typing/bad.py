"""What mypy must refuse: each line with an `expect` names the error it must give."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from tailrace import Attempt, Handlers, Sync, SyncAttempt, Tailrace
from tailrace.consumers.middleware import CallNext
from tailrace.consumers.testing import run_handler

handles = Handlers()


class Wanted(Struct):
    count: int


@handles("plain")  # expect: arg-type
def plain(attempt: Attempt[Wanted]) -> int:
    return 1


@handles("no attempt")  # expect: arg-type
async def nothing() -> None: ...


@handles("typed")
async def typed(attempt: Attempt[Wanted]) -> None:
    attempt.args.size  # expect: attr-defined
    await attempt.progress(1.5)  # expect: arg-type
    await attempt.progress(1, of="five")  # expect: arg-type
    attempt.progress(1)  # expect: unused-coroutine
    await attempt.progress(1, wait="no")  # expect: arg-type
    await attempt.step("size", len, 1)  # expect: call-overload
    await attempt.join([], on_failure="hope")  # expect: call-overload
    (await attempt.spawn("typed", {}, result=Wanted)).total  # expect: attr-defined
    (await attempt.step("size", len, [1])).upper()  # expect: attr-defined


@handles("async in a thread", run_in="thread")  # expect: arg-type
async def async_in_a_thread(attempt: Attempt[Wanted]) -> None: ...


@handles("plain in the loop", run_in="loop")  # expect: arg-type
def plain_in_the_loop(attempt: SyncAttempt[Wanted]) -> None: ...


@handles("the wrong attempt", run_in="process")  # expect: arg-type
def the_wrong_attempt(attempt: Attempt[Wanted]) -> None: ...


handles("nowhere", run_in="cloud")  # expect: call-overload


@handles("in a thread", run_in="thread")
def in_a_thread(attempt: SyncAttempt[Wanted]) -> None:
    attempt.args.size  # expect: attr-defined
    attempt.progress(1.5)  # expect: arg-type
    attempt.progress(1, of="five")  # expect: arg-type
    attempt.quiet()  # expect: attr-defined


@handles.around  # expect: type-var
def plain_hook(attempt: Attempt[Any], call_next: CallNext) -> None: ...


@handles.around  # expect: type-var
async def hook_without_next(attempt: Attempt[Any]) -> None: ...


@handles.around
async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
    await call_next(attempt)  # expect: call-arg
    call_next()  # expect: unused-coroutine


class Pool: ...


@asynccontextmanager
async def lifespan() -> AsyncGenerator[Pool]:
    yield Pool()


pooled = Handlers(lifespan=lifespan)
Handlers(lifespan=Pool)  # expect: arg-type


@pooled("state")
async def state(attempt: Attempt[Wanted, Pool]) -> None:
    attempt.state.fetch()  # expect: attr-defined


@pooled("other state")  # expect: arg-type
async def other_state(attempt: Attempt[Wanted, int]) -> None: ...


@handles("no state")  # expect: arg-type
async def no_state(attempt: Attempt[Wanted, Pool]) -> None: ...


async def submit(tr: Tailrace) -> None:
    await tr.submit("default", 3)  # expect: call-overload
    await tr.submit(typed, {"count": 3})  # expect: misc
    await tr.submit(typed)  # expect: call-overload
    await tr.submit(typed, Wanted(3), delay_seconds="soon")  # expect: call-overload
    await tr.submit(hook, Wanted(3))  # expect: call-overload
    await tr.submit_many(typed, [3])  # expect: misc
    (await tr.result("default.a", type=Wanted)).size  # expect: attr-defined


def submit_and_wait(tr: Sync) -> None:
    tr.submit(typed, "three")  # expect: misc
    tr.result("default.a", type=Wanted).size  # expect: attr-defined
    tr.get(3)  # expect: arg-type


async def test() -> None:
    outcome = await run_handler(handles, 1)  # expect: arg-type
    outcome.state  # expect: attr-defined
    await run_handler(handles, "typed", cancel_after="soon")  # expect: arg-type
