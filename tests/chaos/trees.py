"""Trees of jobs over six platforms, whose handlers leave a trace of what they do, and what that trace must say."""

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from tailrace.streams.history.events import Event
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.states import Status
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

HANDLERS = str(Path(__file__).parents[1] / "consumers" / "waiting_flows.py")
LEAVES = tuple(f"leaf{number}" for number in range(5))
CONFIG = "".join(
    f"[platforms.{name}]\nmax_crashes = 1000\nmax_starts = 1000\nkeep_completed = 0\nkeep_completed_seconds = 3600\n"
    for name in ("root", *LEAVES)
)


async def insist(deployment: Deployment, dice: Random, body: dict[str, Any]) -> str:
    """Submit a job by one gateway or another until one has taken it."""
    while True:
        with suppress(httpx2.TransportError):
            answer = await deployment.http.post(f"{dice.choice(deployment.gateways).url}/api/jobs", json=body)
            if answer.status_code == 202:
                job: str = answer.json()["jobId"]
                return job
            assert answer.status_code == 503, answer.text
        await asyncio.sleep(0.2)


def went_on_once(histories: dict[str, list[Event]], effects: list[str]) -> int:
    """How many jobs awaited children. What their handlers did tells that each went on once, after all of them: only an
    attempt that was lost behind its join is followed by another that joins."""
    ran: set[str] = set()
    joins: dict[str, list[int]] = {}
    for line in effects:
        what, job, attempt, *others = line.split()
        if what == "joined":
            assert {*others} <= ran, f"{job} went on before its children had ended"
        if what != "leaf":
            joins.setdefault(job, []).append(int(attempt))
        ran.add(job)
    for job, attempts in joins.items():
        history = histories[job]
        lost = {event.attempt for event in history if event.status is Status.SUPERSEDED}
        assert len({*attempts}) == len(attempts), f"{job} joined twice in one attempt"
        assert {*attempts} - lost == {history[-1].attempt}, f"{job} joined in {attempts}, and lost {lost}"
        assert [event.status for event in history].count(Status.AWAITING) <= 1, f"{job} was woken without a reason"
    return len(joins)


async def every_job(deployment: Deployment) -> list[str]:
    jobs = []
    for platform in ("root", *LEAVES):
        prefix = PlatformKeys(platform).record("")
        keys = await deployment.store.command("KEYS", f"{prefix}*")
        jobs += [f"{platform}.{key.decode().removeprefix(prefix)}" for key in keys]
    return jobs


async def outboxes_are_empty(deployment: Deployment) -> None:

    async def look() -> bool:
        return not await deployment.store.command("KEYS", "tr:*:outbox")

    await eventually("every outbox is empty", look, seconds=60)
