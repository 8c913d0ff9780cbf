"""Short ways to ask a deployment for jobs with options, and to tell the times of their events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.producers import Submission
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.messages import Event
from tailrace.streams.options import Options
from tailrace.streams.states import Status
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

STEERED = str(Path(__file__).parent / "steered.py")

NO_PAUSE: Mapping[str, Any] = {"backoff_seconds": 0.05, "jitter": 0.0}


async def ask(
    deployment: Deployment, platform: str, kind: str = "drill", /, *, args: Any = None, **options: Any
) -> str:
    """A job's id."""
    quick = {"steps": 1, "seconds": 0.0} if kind == "drill" else {}
    submission = Submission(platform, kind, {**quick, **(args or {})}, None, Options(**options))
    submitted = await deployment.producer.submit(submission)
    deployment.accepted.append(submitted.job_id)
    return submitted.job_id


async def happened(deployment: Deployment, job_id: str, status: Status, attempt: int | None = 1) -> Event:
    """Wait until an event of this status is in the history."""

    async def look() -> Event | None:
        events = await deployment.raw_log(job_id)
        return next((event for event in events if (event.status, event.attempt) == (status, attempt)), None)

    found = await eventually(f"{status} {attempt} of {job_id}", look)
    assert found
    return found


def at(text: str | None) -> float:
    """A time of an event, in seconds."""
    assert text is not None
    return datetime.fromisoformat(text).timestamp()


def when(history: Sequence[Event], status: Status) -> list[float]:
    """The times of all events of a status."""
    return [at(event.time) for event in history if event.status is status]


def pauses(history: Sequence[Event]) -> list[float]:
    """After each failure: how long the job was to rest."""
    return [round(at(event.retryAt) - at(event.time), 3) for event in history if event.status is Status.RETRYING]


async def cancel(deployment: Deployment, job_id: str) -> str:
    platform, key = split_id(job_id)
    more = b',"by":"ops","reason":"not needed"'
    return await deployment.producer._transitions.cancel(PlatformKeys(platform), key, more)
