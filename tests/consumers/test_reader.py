"""Room, order and being called."""

from typing import Any

import anyio

from tailrace.consumers import Attempt, Handlers
from tests.consumers.conftest import Bench, serving


class Crowd:
    """A handler that counts how many of it run at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.handles = Handlers()
        self.handles("count")(self.count)

    async def count(self, attempt: Attempt[Any]) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.sleep(0.01)
        self.now -= 1


async def test_no_more_jobs_run_at_a_time_than_there_is_room_for(bench: Bench) -> None:
    crowd = Crowd()
    async with serving(bench.store, crowd.handles):
        jobs = [await bench.submit("count") for _ in range(20)]
        for job_id in jobs:
            await bench.end_of(job_id)
    assert crowd.most == 4


async def test_process_concurrency_is_shared_by_all_platforms(bench: Bench) -> None:
    crowd = Crowd()
    async with serving(bench.store, crowd.handles, TAILRACE_CONCURRENCY="1"):
        jobs = [await bench.submit("count", platform=platform) for _ in range(5) for platform in ("many", "single")]
        for job_id in jobs:
            await bench.end_of(job_id)
    assert crowd.most == 1


async def test_jobs_of_a_one_at_a_time_platform_start_in_the_order_of_their_submission(bench: Bench) -> None:
    handles = Handlers()
    order: list[str] = []

    @handles("note")
    async def note(attempt: Attempt[Any]) -> None:
        order.append(attempt.job.key)

    async with serving(bench.store, handles), serving(bench.store, handles):
        jobs = [await bench.submit("note", platform="single", key=f"job-{number}") for number in range(30)]
        for job_id in jobs:
            await bench.end_of(job_id)
    assert order == [f"job-{number}" for number in range(30)]


async def test_an_idle_consumer_hears_that_it_is_called(bench: Bench) -> None:
    handles = Handlers()

    @handles("noop")
    async def noop(attempt: Attempt[Any]) -> None:
        return None

    async with serving(bench.store, handles):
        await bench.end_of(await bench.submit("noop"))  # its heart is started by now
        for _ in range(20):
            await bench.end_of(await bench.submit("noop"), seconds=2)
            await anyio.sleep(0.01)  # long enough to fall asleep
