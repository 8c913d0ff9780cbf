"""Order and priority with real consumers: bands share, and each order key is strict whatever happens."""

import asyncio
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tailrace.producers import Submission, Submitted
from tailrace.streams.history.events import Event
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.options import Options
from tailrace.streams.states import Status
from tailrace.streams.transitions import Transitions
from tests.life.asking import PLATFORM, ask, completed, nothing_left, rules
from tests.support.deployment import Deployment
from tests.support.long_runs import scaled


@pytest.mark.parametrize(
    ("jobs", "labels", "consumers"),
    [(40, 5, 2), pytest.param(scaled(100), 10, 4, marks=[pytest.mark.chaos, pytest.mark.timeout(200)])],
)
async def test_each_order_key_completes_in_the_order_of_its_submissions(
    deployment: Deployment, dice: Random, tmp_path: Path, jobs: int, labels: int, consumers: int
) -> None:
    """Random failures, delays and bands; and a worker is killed in the middle."""
    config = rules(tmp_path, max_crashes=20)
    workers = await deployment.consumers(consumers, PLATFORM, TAILRACE_CONFIG=config)
    submissions = [
        Submission(
            PLATFORM,
            "drill",
            {"steps": 1, "seconds": dice.choice([0.0, 0.01, 0.05]), "fail_times": dice.choice([0, 0, 1, 2])},
            f"{number % labels}-{number:03}",
            Options(
                order_key=f"line-{number % labels}",
                priority=dice.choice(["urgent", "normal", "low"]),
                delay_seconds=dice.choice([None, None, None, 0.2]),
                attempts=9,
                backoff_seconds=0.05,
            ),
        )
        for number in range(jobs)
    ]
    dealt = await deployment.producer.submit_many(submissions)
    assert all(isinstance(answer, Submitted) for answer in dealt)
    await completed(deployment, jobs // 4)
    workers[0].kill_group()
    ended = await completed(deployment, jobs)
    for label in range(labels):
        own = [key for key in ended if key.startswith(f"{label}-")]
        assert own == sorted(own), f"line-{label} completed in another order"
        assert len(own) == jobs // labels
    histories = [await deployment.history(f"{PLATFORM}.{key}") for key in ended]
    assert any(event.status is Status.RETRYING for history in histories for event in history)
    assert overlapping(histories, labels) == []
    await nothing_left(deployment)


def overlapping(histories: list[list[Event]], labels: int) -> list[str]:
    """Jobs of one order key whose attempts ran at the same time."""
    found = []
    for label in range(labels):
        spans = []
        for history in histories:
            if not split_id(history[0].jobId)[1].startswith(f"{label}-"):
                continue
            begun = ""
            for event in history:
                if event.status is Status.STARTED:
                    begun = event.time
                elif event.status in (Status.RETRYING, Status.COMPLETED, Status.SUPERSEDED):
                    spans.append((begun, event.time, event.jobId))
        spans.sort()
        found += [f"{b[2]} in {a[2]}" for a, b in pairwise(spans) if b[0] < a[1] and a[2] != b[2]]
    return found


async def test_a_flood_of_urgent_jobs_leaves_every_tenth_start_to_the_others(standing: Deployment) -> None:
    shop = PlatformKeys("kurly")
    transitions = Transitions(standing.store)
    await transitions.pause(shop, "the test")  # so that all stand in line before the first one starts
    bands = ["urgent"] * 54 + ["high"] * 2 + ["normal"] * 2 + ["low"] * 2
    await standing.producer.submit_many(
        [
            Submission("kurly", "drill", {"steps": 0}, f"{band}-{number:02}", Options(priority=band))
            for number, band in enumerate(bands)
        ]
    )
    await transitions.resume(shop)
    ended = await completed(standing, len(bands), shop)
    nine = ["urgent"] * 9
    assert [key.split("-")[0] for key in ended] == [*nine, "normal", *nine, "low", *nine, "high"] * 2


async def test_without_a_share_low_jobs_wait_for_all_urgent_ones(deployment: Deployment, tmp_path: Path) -> None:
    shop = PlatformKeys("kurly")
    transitions = Transitions(deployment.store)
    await transitions.pause(shop, "the test")
    await deployment.consumer("kurly", TAILRACE_CONFIG=rules(tmp_path, "kurly", share=0))
    for band in ("low", "urgent"):
        await asyncio.gather(*(ask(deployment, "kurly", priority=band) for _ in range(15)))
    await transitions.resume(shop)
    ended = await completed(deployment, 30, shop)
    bands = [(await deployment.record(f"kurly.{key}")).band for key in ended]
    assert bands == ["urgent"] * 15 + ["low"] * 15


async def test_a_first_job_passes_a_long_line(standing: Deployment) -> None:
    shop = PlatformKeys("ably")
    running = await ask(standing, "ably", args={"seconds": 0.5})
    await standing.started(running)
    waiting = [await ask(standing, "ably", priority="urgent") for _ in range(20)]
    first = await ask(standing, "ably", first=True, priority="low")
    ended = await completed(standing, 22, shop)
    assert [f"ably.{key}" for key in ended] == [running, first, *waiting]


async def test_a_blocked_order_key_holds_up_no_other(standing: Deployment) -> None:
    """2,000 jobs of a key whose head runs stand before one that has nothing to do with them."""
    head = await ask(standing, PLATFORM, args={"seconds": 2.5}, order_key="k")
    await standing.started(head)
    behind = [Submission(PLATFORM, "drill", {"steps": 0}, f"b-{n:04}", Options(order_key="k")) for n in range(2000)]
    await standing.producer.submit_many(behind)
    other = await ask(standing, PLATFORM, order_key="other")
    await standing.ended(other)
    assert (await standing.record(head)).state == "running", "the other did not wait for it"
    ended = await completed(standing, 2002)
    assert [key for key in ended if key.startswith("b-")] == [f"b-{n:04}" for n in range(2000)]
    await nothing_left(standing)
