"""What a consumer tells Prometheus and probes on its own port."""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import httpx2

from tailrace.consumers import Attempt, Handlers
from tailrace.consumers.metrics.counters import MOST_FAILURES, PlatformCounters
from tailrace.streams.process.histogram import Histogram
from tailrace.streams.states import State
from tests.consumers.conftest import Bench, serving
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import UNHURRIED
from tests.support.samples import Samples

handles = Handlers()

IN_A_PROCESS = """
import time
from tailrace import Attempt, Handlers

handles = Handlers()


@handles("spin", run_in="process")
def spin(attempt: Attempt[dict]) -> None:
    begun = time.process_time()
    while time.process_time() < begun + 0.2:
        pass
"""


@handles("works")
async def works(attempt: Attempt[dict[str, int]]) -> int:
    return attempt.number


@handles("fails")
async def fails(attempt: Attempt[dict[str, int]]) -> None:
    raise LookupError("no such page")


async def scrape(port: int, path: str = "/metrics") -> str:
    async with httpx2.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{port}{path}")
        assert answer.status_code == 200, answer.text
        return answer.text


async def test_a_consumer_counts_what_became_of_its_attempts(bench: Bench) -> None:
    port = free_port()
    async with serving(bench.store, handles, TAILRACE_METRICS_PORT=str(port)):

        async def answers() -> bool:
            with suppress(httpx2.TransportError):
                return bool(await scrape(port))
            return False

        await eventually("the port answers", answers)
        jobs = [await bench.submit("works", key=f"job-{n}") for n in range(3)]
        jobs.append(await bench.submit("fails", key="job-bad", attempts=2, backoff_seconds=0.0))
        jobs.append(await bench.submit("nonsense", key="job-odd"))
        for job in jobs:
            await bench.end_of(job)

        async def counted() -> Samples | None:
            seen = Samples(await scrape(port))
            return seen if seen.value("tailrace_attempts_total", platform="many") >= 6 else None

        seen = await eventually("all attempts are counted", counted)
        assert seen is not None
        outcomes = {"completed": 3, "retrying": 1, "failed": 2}
        for outcome, count in outcomes.items():
            assert seen.value("tailrace_attempts_total", platform="many", outcome=outcome) == count
        assert seen.value("tailrace_attempts_started_total", platform="many") == 6
        assert seen.value("tailrace_failures_total", platform="many", kind="fails", error="LookupError") == 2
        assert seen.value("tailrace_failures_total", kind="unknown", error="UnknownKind") == 1
        assert seen.value("tailrace_queue_wait_seconds_count", platform="many") == 5  # the retry is none
        assert seen.value("tailrace_run_seconds_count", platform="many") == 6
        assert seen.value("tailrace_run_seconds_bucket", platform="many", le="7200.0") == 6
        assert seen.value("tailrace_commit_operations_count") == seen.value("tailrace_store_round_trip_seconds_count")
        assert seen.value("tailrace_beats_total") > 0
        assert seen.value("tailrace_slots", platform="many") == 4
        assert seen.value("tailrace_build_info", role="consumer") == 1
        assert {
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "tailrace_loop_lag_seconds",
        } <= seen.names()
        assert not any("job-" in value for _, labels in seen for _, value in labels)


async def test_probes_and_metrics_are_answered_while_a_handler_holds_the_interpreter(deployment: Deployment) -> None:
    port = free_port()
    await deployment.consumer("research", pace=UNHURRIED, TAILRACE_METRICS_PORT=str(port))
    job = await deployment.submit("research", steps=1, seconds=50.0, block="regex")
    await deployment.started(job)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20.0) as http:

        async def held() -> bool:
            seen = Samples((await http.get("/metrics")).text)
            return seen.value("tailrace_loop_lag_seconds") > 1.0

        await eventually("the loop is seen to be held", held)
        assert [(await http.get(path)).status_code for path in ("/healthz", "/readyz", "/nothing")] == [200, 200, 404]
        assert (await http.post("/metrics")).status_code == 405
    assert (await deployment.record(job)).state is State.RUNNING, "it still holds the loop"


async def test_memory_and_processor_time_are_told_of_the_heart_and_of_worker_processes_too(
    deployment: Deployment, tmp_path: Path
) -> None:
    """A worker process that is gone leaves its time behind: the counter does not fall."""
    handlers = tmp_path / "handlers.py"
    handlers.write_text(IN_A_PROCESS)
    port = free_port()
    await deployment.consumer("research", TAILRACE_METRICS_PORT=str(port), TAILRACE_HANDLERS=str(handlers))
    before = Samples(await scrape(port))
    await deployment.ended(await deployment.submit("research", kind="spin"))
    after = Samples(await scrape(port))
    for process in ("consumer", "heart", "children"):
        for name in ("tailrace_process_memory_bytes", "tailrace_process_cpu_seconds_total"):
            assert after.value(name, process=process) > 0, (name, process)
    spent = [seen.value("tailrace_process_cpu_seconds_total", process="children") for seen in (before, after)]
    assert spent[1] - spent[0] > 0.15, "the handler took 0.2 s of a processor, in a process of its own"


async def test_a_stopped_consumer_is_not_alive(deployment: Deployment) -> None:
    port = free_port()
    consumer = await deployment.consumer("research", TAILRACE_METRICS_PORT=str(port))
    os.kill(consumer.pid, signal.SIGSTOP)  # not its heart
    async with httpx2.AsyncClient() as http:
        assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 503
        consumer.thaw()


async def test_a_consumer_works_although_its_port_is_taken(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with serving(bench.store, handles, TAILRACE_METRICS_PORT=str(taken.getsockname()[1])):
            assert (await bench.end_of(await bench.submit("works")))[-1].result == 1


def test_failures_beyond_a_hundred_pairs_are_counted_as_other() -> None:
    counters = PlatformCounters("many")
    for n in range(MOST_FAILURES + 5):
        counters.fail(f"kind-{n}", "E" * 300)
        counters.fail("kind-0", "E" * 300)
    assert counters.failures["kind-0"] == {"E" * 64: MOST_FAILURES + 6}
    assert counters.failures["other"] == {"other": 5}
    assert len(counters.failures) == MOST_FAILURES + 1


def test_a_histogram_counts_up_to_and_with_each_bound() -> None:
    histogram = Histogram.over((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    histogram.noted.append(2.0)
    histogram.fold()
    histogram.fold()
    assert list(histogram.buckets()) == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.total == 14.0
