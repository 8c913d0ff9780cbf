"""Resources of handlers: opened once in each process, closed when it drains, an error at the start when they fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tailrace.consumers import Attempt, Handlers, SyncAttempt
from tailrace.consumers.program.lifespans import Lifespans
from tailrace.consumers.testing import run_handler
from tailrace.streams.errors import BadConfiguration
from tests.support.deployment import Deployment

HANDLERS = """
import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from tailrace import Attempt, Handlers, SyncAttempt

JOURNAL = Path(os.environ["JOURNAL"])


class Pool:
    uses = 0


def note(what: str) -> None:
    with JOURNAL.open("a") as journal:
        journal.write(f"{what}\\n")


@asynccontextmanager
async def lifespan():
    async with anyio.create_task_group() as tasks:  # as many clients hold one: entered and left by one task
        tasks.start_soon(anyio.sleep_forever)
        note(f"open {os.getpid()}")
        yield Pool()
        tasks.cancel_scope.cancel()
    note(f"close {os.getpid()}")


handles = Handlers(lifespan=lifespan)
others = Handlers()


def used(attempt) -> list[int]:
    attempt.state.uses += 1
    return [os.getpid(), attempt.state.uses]


@handles("loop")
async def in_loop(attempt: Attempt[dict, Pool]) -> list[int]:
    return used(attempt)


@handles("thread", run_in="thread")
def in_thread(attempt: SyncAttempt[dict, Pool]) -> list[int]:
    return used(attempt)


@handles("process", run_in="process")
def in_process(attempt: SyncAttempt[dict, Pool]) -> list[int]:
    return used(attempt)


@others("without")
async def without(attempt: Attempt[dict]) -> bool:
    return attempt.state is None


@handles("hangs")
async def hangs(attempt: Attempt[dict, Pool]) -> None:
    await attempt.progress(1)
    try:
        await anyio.sleep_forever()
    finally:
        await asyncio.sleep(0.1)
        note(f"tidied with {attempt.state.uses} uses")
"""


async def test_a_lifespan_is_entered_once_in_each_process_and_left_when_it_drains(
    deployment: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    journal = tmp_path / "journal"
    consumer = await deployment.consumer(
        "research", TAILRACE_HANDLERS=str(tmp_path / "shop.py"), JOURNAL=str(journal), TAILRACE_GRACE_SECONDS="0"
    )
    results = []
    for kind in ("loop", "thread", "loop", "process", "process", "without"):
        ended = (await deployment.ended(await deployment.submit("research", kind=kind)))[-1]
        assert ended.status == "completed", ended
        results.append(ended.result)
    (worker, first), second = results[3:5]
    assert [first, second, results[5]] == [1, [worker, 2], True]
    assert results[:3] == [[consumer.pid, 1], [consumer.pid, 2], [consumer.pid, 3]]
    await deployment.reached(await deployment.submit("research", kind="hangs"), 1)
    consumer.interrupt()
    assert await consumer.ended() == 0
    *opened, tidied, last, very_last = journal.read_text().splitlines()
    assert opened == [f"open {consumer.pid}", f"open {worker}"]
    assert tidied == "tidied with 3 uses"
    assert {last, very_last} == {f"close {worker}", f"close {consumer.pid}"}


FAILING = HANDLERS.replace('note(f"open {os.getpid()}")', 'raise OSError("no database at db:5432")')


async def test_a_lifespan_that_fails_stops_the_consumer_with_a_sentence(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FAILING)
    consumer = deployment.start_consumer("research", TAILRACE_HANDLERS=str(tmp_path / "shop.py"), JOURNAL="none")
    assert await consumer.ended() == 78
    said = consumer.log.read_text().splitlines()
    assert said[-1] == "the lifespan shop.lifespan of the handlers failed: OSError: no database at db:5432"


@asynccontextmanager
async def opened() -> AsyncIterator[list[str]]:
    JOURNAL.append("open")
    yield JOURNAL
    JOURNAL.append("close")


JOURNAL: list[str] = []
handles = Handlers(lifespan=opened)


@handles("note")
async def note(attempt: Attempt[dict[str, str], list[str]]) -> int:
    attempt.state.append("note")
    return len(attempt.state)


@handles("elsewhere", run_in="process")
def elsewhere(attempt: SyncAttempt[dict[str, str], list[str]]) -> int:
    return len(attempt.state)


async def test_a_test_gives_a_state_or_has_the_lifespan_entered() -> None:
    JOURNAL.clear()
    assert (await run_handler(handles, note, state=[])).result == 1
    assert (await run_handler(handles, "elsewhere")).result == 1
    assert JOURNAL == ["open", "close"]  # here; the other process has a journal of its own
    assert (await run_handler(handles, "note")).result == 4
    assert JOURNAL[2:] == ["open", "note", "close"]
    with pytest.raises(ValueError, match=r"state: the kind elsewhere has run_in=\"process\""):
        await run_handler(handles, "elsewhere", state=[])


async def test_a_lifespan_that_hangs_while_it_opens_ends_with_the_shutdown() -> None:
    @asynccontextmanager
    async def hanging() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    shutdown = asyncio.Event()
    lifespans = Lifespans([opened, hanging, opened])
    asyncio.get_running_loop().call_later(0.01, shutdown.set)
    JOURNAL.clear()
    assert not await lifespans.open_all(unless=shutdown)
    await lifespans.close()
    assert JOURNAL == ["open", "close"]


async def not_a_context_manager() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(("lifespan", "why"), [(not_a_context_manager, "asynccontextmanager"), (3, "not int")])
def test_what_cannot_be_entered_is_refused_at_once(lifespan: Any, why: str) -> None:
    with pytest.raises(BadConfiguration, match=why):
        Handlers(lifespan=lifespan)
