"""What mypy must accept: handlers as users write them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from tailrace import Attempt, ChildFailed, Handlers, JobInfo, Schedule, Submitted, Sync, SyncAttempt, Tailrace, consume
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
    await attempt.progress("named step", wait=False)
    await attempt.flush()
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


@handles("flow")
async def flow(attempt: Attempt[Wanted]) -> int:
    children = await attempt.spawn_many("typed", [Wanted(1)], platform="research", result=Found, attempts=1)
    one: list[Found] = await attempt.join(children)
    some: list[Found | None] = await attempt.join(children, on_failure="ignore")
    told: list[Found | ChildFailed] = await attempt.join(children, on_failure="collect")
    said: Wanted = await attempt.wait_for("approval", timeout=60, type=Wanted)
    kept: dict[str, int] | None = attempt.checkpointed(dict[str, int])
    walked = await attempt.each([1, 2], found, on_error="skip")
    mail = await attempt.submit("loose", {"to": "ann"}, delay_seconds=5)
    return one[0].total + len(some) + len(told) + said.count + len(kept or {}) + walked.done + len(mail.id)


@handles("flow in a process", run_in="process")
def flow_in_a_process(attempt: SyncAttempt[Wanted]) -> int:
    child = attempt.spawn("typed", Wanted(1), result=Found)
    one: list[Found] = attempt.join([child])
    said: Wanted = attempt.wait_for("approval", type=Wanted)
    attempt.sleep(1)
    return one[0].total + said.count


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
    attempt.progress("named step", wait=False)
    attempt.flush()
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


class Pool:
    name = "primary"

    async def fetch(self, query: str) -> int:
        return len(query)


@asynccontextmanager
async def lifespan() -> AsyncGenerator[Pool]:
    yield Pool()


@dataclass
class Query:
    text: str


pooled = Handlers(lifespan=lifespan)


@pooled("ask", platform="default")
async def ask(attempt: Attempt[Query, Pool]) -> int:
    return await attempt.state.fetch(attempt.args.text)


@pooled("ask at leisure", run_in="thread")
def ask_at_leisure(attempt: SyncAttempt[Query, Pool]) -> str:
    pool: Pool = attempt.state
    return attempt.args.text + pool.name


@pooled("without it")
async def without_it(attempt: Attempt[Query]) -> None:
    assert attempt.args.text, attempt.state


async def submit(tr: Tailrace) -> Found:
    job: Submitted = await tr.submit("default", "ask", {"text": "why"}, id="a", delay_seconds=5)
    job = await tr.submit(ask, Query("why"), id="a", priority="high")
    await tr.submit(ask_at_leisure, Query("why"), platform="kurly")
    await tr.submit(loose, {"any": "thing"}, platform="kurly")
    await tr.submit_many(ask, [Query("why"), Query("how")])
    told: JobInfo = await tr.get(job.id)
    async for event in tr.follow(told.id):
        assert event.status, event.step
    await tr.schedules.upsert(Schedule(name="nightly", platform="default", kind="ask", cron="0 3 * * *"))
    return await tr.result(job.id, type=Found, timeout=5)


def submit_and_wait(tr: Sync) -> list[Found]:
    job: Submitted = tr.submit(ask, Query("why"))
    tr.schedules.pause("default", "nightly")
    return tr.result(job.id, type=list[Found], timeout=5)


async def embed() -> None:
    await consume(pooled, platforms=["default"], signals=False)


called: Callable[[Attempt[Query, Pool]], Any] = ask  # as a test may call it
kept: Callable[[SyncAttempt[Wanted]], Found] = in_a_thread  # a decorated function is still what it was
