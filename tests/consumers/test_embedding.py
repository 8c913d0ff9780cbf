"""A consumer inside a program of one's own: it drains when it is cancelled, and leaves signals and logging alone."""

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from tailrace import Attempt, Handlers, Tailrace, consume
from tailrace.consumers import JobFacts
from tailrace.streams.errors import BadConfiguration
from tests.support.eventually import eventually

handles = Handlers()
QUICK = {"TAILRACE_BEAT_SECONDS": "0.3", "TAILRACE_DEADLINE_SECONDS": "10", "TAILRACE_GRACE_SECONDS": "20"}


@handles("shout", platform="research")
async def shout(attempt: Attempt[dict[str, str]]) -> str:
    logging.getLogger("shop").warning("shouting %s", attempt.args["word"])
    return attempt.args["word"].upper()


@handles("wait", platform="research")
async def wait(attempt: Attempt[dict[str, Any]]) -> str:
    await attempt.progress(1)
    await asyncio.sleep(attempt.args["seconds"])
    return "waited"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, valkey_url: str) -> None:
    for name, value in {**QUICK, "REDIS_URL": valkey_url}.items():
        monkeypatch.setenv(name, value)


async def test_a_consumer_runs_in_a_program_and_drains_when_it_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogger().handlers[:], signal.getsignal(signal.SIGTERM)
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(JobFacts())
    caplog.handler.setFormatter(logging.Formatter("%(message)s %(job)s #%(attempt)s"))
    async with Tailrace() as tr, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: consume(handles, platforms=["research"], signals=False))
        job = await tr.submit(shout, {"word": "hey"})
        assert await tr.result(job.id, timeout=30) == "HEY"
        assert f"shouting hey {job.id} #1" in caplog.text
        assert "consumer_started owner=research." in caplog.text
        assert (logging.getLogger().handlers, signal.getsignal(signal.SIGTERM)) == before
        waiting = await tr.submit(wait, {"seconds": 0.5})
        async for event in tr.follow(waiting.id):
            if event.step == 1:
                break
        tasks.cancel_scope.cancel()
    async with Tailrace() as tr:
        assert await tr.result(waiting.id, timeout=5) == "waited"  # it was allowed to finish


def draining(caplog: pytest.LogCaptureFixture) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return "draining owner=" in caplog.text

    return look


async def test_a_second_cancel_hands_back_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Tailrace() as tr:
        consumer = asyncio.create_task(consume(handles, platforms=["research"], signals=False))
        job = await tr.submit(wait, {"seconds": 600})
        async for event in tr.follow(job.id):
            if event.step == 1:
                break
        consumer.cancel()
        await eventually("it drains", draining(caplog))
        assert not consumer.done()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert [event.reason for event in await tr.history(job.id) if event.status == "superseded"] == ["released"]
        assert (await tr.get(job.id)).status == "waiting"


async def test_a_consumer_that_is_asked_to_restart_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Tailrace() as tr:
        consumer = asyncio.create_task(consume(handles, platforms=["research"], signals=False))
        first = await tr.submit(shout, {"word": "hey"})
        await tr.result(first.id, timeout=30)
        (owner,) = await tr.restart("research")
        await eventually("it drains", draining(caplog))
        again = await tr.submit(shout, {"word": "ho"})
        await tr.result(again.id, timeout=30)
        assert (await tr.history(again.id))[-1].workerId != owner
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer


async def test_what_is_wrong_is_raised_before_anything_runs() -> None:
    other = Handlers()

    @other("lost", platform="nowhere")
    async def lost(attempt: Attempt[dict[str, str]]) -> None: ...

    with pytest.raises(BadConfiguration, match="'lost' names the platform 'nowhere'; declared are"):
        await consume(other, platforms="research")
    with pytest.raises(BadConfiguration, match="the argument PLATFORM names nowhere"):
        await consume(handles, platforms=["nowhere"])
    with pytest.raises(BadConfiguration, match="signals: only the main thread hears them"):
        await asyncio.to_thread(asyncio.run, consume(handles))


PROGRAM = """
import asyncio
from tailrace import Handlers, consume
asyncio.run(consume(Handlers(), platforms=["research"]))
print("and on", flush=True)
"""


async def test_a_program_that_leaves_signals_to_it_goes_on_after_sigterm() -> None:
    program = subprocess.Popen(  # noqa: ASYNC220 # started in a few milliseconds
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        async with Tailrace() as tr:
            job = await tr.submit("research", "drill", {"steps": 0})
            await tr.result(job.id, timeout=30)
        program.terminate()
        said = await asyncio.to_thread(program.communicate, timeout=20)
    finally:
        program.kill()
    assert (said, program.returncode) == (("and on\n", ""), 0)  # its logging shows warnings only, as Python's does
