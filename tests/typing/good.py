"""What mypy must accept: handlers as users write them."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tailrace.consumers import Attempt, Handlers, SyncAttempt
from tailrace.consumers.middleware import CallNext
from tailrace.consumers.testing import HandlerOutcome, run_handler
from tailrace.streams.policies import Policy

handles = Handlers()


class Wanted(Struct):
    count: int


class Found(Struct):
    total: int


@handles("typed")
async def typed(attempt: Attempt[Wanted]) -> Found:
    await attempt.progress(1, of=attempt.args.count, message="one", data={"any": ["json"]})
    await attempt.progress("named step")
    key: str = attempt.idempotency_key("pay")
    return Found(attempt.args.count + attempt.number + len(key) + len(attempt.job.id))


@handles("loose")
async def loose(attempt: Attempt[dict[str, Any]]) -> dict[str, Any]:
    return {"fence": attempt.fence, **attempt.args}


def found(count: int, *, scale: float = 1.0) -> Found:
    return Found(round(count * scale))


async def found_later(count: int) -> list[Found]:
    return [Found(count)]


@handles("steps")
async def steps(attempt: Attempt[Wanted]) -> int:
    one: Found = await attempt.step("one", found, 1, scale=2.0)
    many: list[Found] = await attempt.step("many", found_later, 2)
    return one.total + len(many)


@handles("steps in a thread", run_in="thread")
def steps_in_a_thread(attempt: SyncAttempt[Wanted]) -> int:
    one: Found = attempt.step("one", found, 1, scale=2.0)
    return one.total


@handles("in the loop", run_in="loop", backoff=lambda failures: 2.0 * failures)
async def in_the_loop(attempt: Attempt[Wanted]) -> int:
    return attempt.args.count


@handles("in a thread", run_in="thread")
def in_a_thread(attempt: SyncAttempt[Wanted]) -> Found:
    attempt.progress(1, of=attempt.args.count, message="one", data={"any": ["json"]})
    attempt.progress("named step")
    key: str = attempt.idempotency_key("pay")
    return Found(attempt.args.count + attempt.number + attempt.failures + len(key) + len(attempt.job.id))


@handles("in a process", run_in="process", backoff=lambda failures: 1.0)
def in_a_process(attempt: SyncAttempt[dict[str, Any]]) -> None:
    attempt.progress(len(attempt.args))


@handles.around
async def hook(attempt: Attempt[Any], call_next: CallNext) -> None:
    await attempt.progress("before")
    await call_next()


async def test() -> float | None:
    outcome: HandlerOutcome = await run_handler(handles, "typed", Wanted(1), failures=1, policy=Policy(attempts=2))
    steps = [report.step for report in outcome.progress]
    return outcome.again_in_seconds if outcome.retried and steps else None


kept: Callable[[SyncAttempt[Wanted]], Found] = in_a_thread  # a decorated function is still what it was
