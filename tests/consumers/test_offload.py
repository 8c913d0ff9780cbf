"""Plain handlers: in a thread, and in a worker process that may die alone."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tailrace.consumers.offload.dispatch import Offload
from tailrace.producers import Submission
from tailrace.streams import PlatformKeys, Transitions
from tailrace.streams.history.events import Event
from tailrace.streams.options import Options
from tailrace.streams.states import Status
from tests.consumers.conftest import Bench, serving, standing
from tests.consumers.offloaded import handles
from tests.support.builders import Desk, take_away
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import Pace

FILE = Path(__file__).with_name("offloaded.py")
BOTH = pytest.mark.parametrize("place", ["thread", "process"])


async def submit(bench: Bench, kind: str, args: Any = None, **options: Any) -> str:
    return (await bench.producer.submit(Submission("many", kind, args or {}, None, Options(**options)))).id


async def reached(bench: Bench, job_id: str, step: int = 1) -> Event:
    async def look() -> list[Event]:
        return [event for event in await bench.events(job_id) if event.step == step]

    return (await eventually(f"{job_id} shows step {step}", look))[0]


async def gone(*pids: int) -> None:
    async def look() -> bool:
        return not any(is_alive(pid) for pid in pids)

    await eventually(f"the processes {pids} are gone", look)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """A consumer with these handlers that outlives a test."""
    async with standing(tmp_path_factory.mktemp("served"), handles) as bench:
        yield bench


@BOTH
async def test_a_plain_handler_gets_decoded_args_reports_and_returns(served: Bench, place: str) -> None:
    added = await served.end_of(await submit(served, f"{place}-add", {"count": 41}))
    shown = await served.end_of(await served.submit(f"{place}-show", key=place))
    where = (await served.end_of(await submit(served, f"{place}-where")))[-1].result
    assert added[-1].result == {"count": 42}
    assert [(event.status, event.step) for event in shown[2:]] == [
        ("progress", 1),
        ("progress", "named"),
        ("completed", None),
    ]
    assert (shown[2].of, shown[2].message, shown[2].data) == (2, "one", {"a": [1]})
    assert shown[-1].result == {"key": f"many.{place}/pay", "number": 1, "id": f"many.{place}"}
    assert (where["pid"] == os.getpid()) == (place == "thread")
    assert (where["thread"] == "MainThread") == (place == "process")


@BOTH
@pytest.mark.parametrize(
    ("kind", "error", "part", "traced"),
    [
        ("fails", "LookupError", "no luck", True),
        ("gives-up", "GiveUp", "never", True),
        ("exits", "SystemExit", "3", True),
        ("unkept", "WrongResult", "JSON", False),
        ("large", "WrongResult", "1 MB", False),
        ("large-report", "ValueError", "1 MB", True),
        ("wrong-step", "TypeError", "whole number or a name", True),
        ("add", "WrongArgs", "count", False),
    ],
)
async def test_what_a_plain_handler_raises_is_told_as_it_was(
    served: Bench, place: str, kind: str, error: str, part: str, traced: bool
) -> None:
    last = (await served.end_of(await submit(served, f"{place}-{kind}", attempts=1)))[-1]
    assert last.status is Status.FAILED
    assert last.error is not None
    assert last.error.type == error
    assert part in last.error.message
    assert ("offloaded.py" in (last.error.traceback or "")) == traced


@BOTH
async def test_giving_up_is_not_tried_again(served: Bench, place: str) -> None:
    events = await served.end_of(await submit(served, f"{place}-gives-up", attempts=3))
    assert [event.status for event in events] == ["queued", "started", "failed"]


@BOTH
@pytest.mark.parametrize(("kind", "reason"), [("delays", None), ("rate-limits", "rate")])
async def test_a_plain_handler_puts_its_job_off(served: Bench, place: str, kind: str, reason: str | None) -> None:
    events = await served.end_of(await submit(served, f"{place}-{kind}"))
    assert [event.status for event in events] == ["queued", "started", "delayed", "started", "completed"]
    assert events[2].reason == reason


@BOTH
async def test_a_cancelled_handler_hears_of_it_and_can_tidy_up(served: Bench, place: str, tmp_path: Path) -> None:
    tidied = tmp_path / "tidied"
    job_id = await submit(served, f"{place}-obeys", {"tidied": str(tidied)})
    await reached(served, job_id)
    await Transitions(served.store).cancel(PlatformKeys("many"), job_id.partition(".")[2])
    assert (await served.end_of(job_id))[-1].status is Status.CANCELLED
    await eventually("it has tidied up", lambda: anyio.Path(tidied).exists())


@BOTH
async def test_a_timeout_stops_it_and_is_a_failure(served: Bench, place: str, tmp_path: Path) -> None:
    tidied = tmp_path / "tidied"
    await served.end_of(await submit(served, f"{place}-where"))  # the process is started by now
    args = {"tidied": str(tidied)}
    last = (await served.end_of(await submit(served, f"{place}-obeys", args, attempts=1, timeout_seconds=1.5)))[-1]
    assert last.status is Status.FAILED
    assert last.reason == "timeout"
    assert last.error is not None
    assert last.error.type == "TimedOut"
    await eventually("it has tidied up", lambda: anyio.Path(tidied).exists())


async def test_a_thread_that_does_not_stop_is_left_mute_its_place_is_free_and_it_serves_again_when_it_comes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offloads: list[Offload] = []
    original: Callable[..., Awaitable[Any]] = Offload.call

    async def call(self: Offload, *args: Any) -> Any:
        offloads.append(self)
        return await original(self, *args)

    monkeypatch.setattr(Offload, "call", call)
    async with serving(bench.store, handles, TAILRACE_CONCURRENCY="1", TAILRACE_OBEY_SECONDS="0.3"):
        deaf = await submit(bench, "thread-deaf", {"seconds": 3}, attempts=1, timeout_seconds=0.3)
        next_job = await submit(bench, "thread-where")
        last = (await bench.end_of(deaf))[-1]
        pool = offloads[0]._threads
        assert pool.abandoned == 1
        after = (await bench.end_of(next_job))[-1]
        assert last.error is not None
        assert last.error.type == "TimedOut"
        assert after.status is Status.COMPLETED
        assert after.result["thread"] != "handler-1"  # which is still busy

        async def back() -> bool:
            return pool.abandoned == 0

        await eventually("the thread is back", back)
        where = (await bench.end_of(await submit(bench, "thread-where")))[-1].result
    assert where["thread"] == "handler-1"


async def test_threads_and_processes_are_kept_and_only_as_many_as_run_at_once(bench: Bench) -> None:
    async with serving(bench.store, handles):  # four jobs at a time
        for kind, name in (("thread-where", "thread"), ("process-where", "pid")):
            jobs = [await submit(bench, kind, {"seconds": 0.01}) for _ in range(12)]
            used = {(await bench.end_of(job))[-1].result[name] for job in jobs}
            assert 1 <= len(used) <= 4


@pytest.mark.parametrize(
    ("args", "part"), [({"code": 7}, "exit code 7"), ({"signal": "SIGSEGV"}, "SIGSEGV"), ({"code": 0}, "exit code 0")]
)
async def test_a_worker_process_that_dies_is_a_failure_of_its_attempt_alone(
    served: Bench, args: dict[str, Any], part: str
) -> None:
    beside = await submit(served, "process-where", {"seconds": 1})
    last = (await served.end_of(await submit(served, "dies", args, attempts=1)))[-1]
    after = (await served.end_of(await submit(served, "process-add", {"count": 1})))[-1]
    assert last.status is Status.FAILED
    assert last.error is not None
    assert last.error.type == "WorkerProcessDied"
    assert part in last.error.message
    assert after.result == {"count": 2}
    assert (await served.end_of(beside))[-1].status is Status.COMPLETED


async def test_a_process_that_does_not_stop_is_killed_with_what_it_started(served: Bench) -> None:
    job_id = await submit(served, "holds", attempts=1)
    pids = (await reached(served, job_id)).data
    assert all(map(is_alive, pids))
    await Transitions(served.store).cancel(PlatformKeys("many"), job_id.partition(".")[2])
    assert (await served.end_of(job_id))[-1].status is Status.CANCELLED
    await gone(*pids)
    after = (await served.end_of(await submit(served, "process-add", {"count": 1})))[-1]
    assert after.result == {"count": 2}


async def test_a_timed_out_process_is_killed(served: Bench) -> None:
    await served.end_of(await submit(served, "process-where"))  # the process is started by now
    job_id = await submit(served, "process-deaf", {"seconds": 600}, attempts=1, timeout_seconds=1.5)
    last = (await served.end_of(job_id))[-1]
    pid = (await reached(served, job_id)).data
    assert last.reason == "timeout"
    await gone(pid)


async def test_an_attempt_that_lost_its_job_is_mute_in_a_process_too(served: Bench, tmp_path: Path) -> None:
    job_id = await submit(served, "process-deaf", {"seconds": 2})
    await reached(served, job_id)
    await take_away(Desk(served.store, "many"))
    events = await served.end_of(job_id)
    assert [(event.attempt, event.status) for event in events[-3:]] == [
        (2, "started"),
        (2, "progress"),
        (2, "completed"),
    ]


async def test_worker_processes_end_with_a_drained_consumer(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research", TAILRACE_HANDLERS=str(FILE))
    done = await deployment.ended(await deployment.submit("research", kind="process-where"))
    assert is_alive(done[-1].result["pid"])
    running = await deployment.submit("research", kind="process-where", seconds=1)
    await deployment.started(running)
    consumer.interrupt()
    assert await consumer.ended() == 0
    assert (await deployment.history(running))[-1].status is Status.COMPLETED
    await gone(done[-1].result["pid"])


async def test_a_drain_hands_back_what_its_processes_do_not_finish(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research", pace=Pace(grace=0.3), TAILRACE_HANDLERS=str(FILE))
    job = await deployment.submit("research", kind="holds")
    await deployment.reached(job, 1)
    pids = (await deployment.raw_log(job))[-1].data
    consumer.interrupt()
    assert await consumer.ended() == 0
    assert (await deployment.history(job))[-1].reason == "released"
    await gone(*pids)


async def test_a_thread_that_hangs_does_not_keep_its_consumer_from_leaving(deployment: Deployment) -> None:
    pace = Pace(grace=0.3)
    consumer = await deployment.consumer(
        "research", pace=pace, TAILRACE_HANDLERS=str(FILE), TAILRACE_OBEY_SECONDS="0.3"
    )
    job = await deployment.submit("research", kind="thread-deaf", seconds=600)
    await deployment.reached(job, 1)
    consumer.interrupt()
    assert await consumer.ended() == 0
    assert (await deployment.history(job))[-1].reason == "released"


async def test_worker_processes_end_with_a_consumer_that_is_killed(deployment: Deployment) -> None:
    consumer = await deployment.consumer("research", TAILRACE_HANDLERS=str(FILE))
    idle = (await deployment.ended(await deployment.submit("research", kind="process-where")))[-1].result["pid"]
    job = await deployment.submit("research", kind="holds")
    await deployment.reached(job, 1)
    busy, program = (await deployment.raw_log(job))[-1].data
    other = await deployment.submit("research", kind="process-where", seconds=600)
    await deployment.started(other)
    children = [child.pid for child in psutil.Process(consumer.pid).children()]
    assert busy in children
    assert idle in children
    try:
        consumer.kill()
        await gone(*children)
    finally:
        psutil.Process(program).kill()


async def test_a_signal_to_all_processes_of_a_consumer_lets_its_jobs_finish(deployment: Deployment) -> None:
    """As a supervisor does that knows only the group of processes."""
    consumer = await deployment.consumer("research", TAILRACE_HANDLERS=str(FILE))
    job = await deployment.submit("research", kind="process-deaf", seconds=1.5)
    await deployment.started(job)
    for child in psutil.Process(consumer.pid).children():
        child.terminate()
    consumer.interrupt()
    assert await consumer.ended() == 0
    assert (await deployment.history(job))[-1].status is Status.COMPLETED
