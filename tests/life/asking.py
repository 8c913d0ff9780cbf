"""Short ways to ask a deployment for jobs with options, and to tell the times of their events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.producers import Submission
from tailrace.streams.history.events import Event
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.options import Options
from tailrace.streams.states import Status
from tailrace.streams.transitions import Transitions
from tests.support.builders import Desk
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

PLATFORM = "research"
KEYS = PlatformKeys(PLATFORM)
STEERED = str(Path(__file__).parent / "steered.py")

NO_PAUSE: Mapping[str, Any] = {"backoff_seconds": 0.05, "jitter": 0.0}


async def ask(
    deployment: Deployment, platform: str, kind: str = "drill", /, *, args: Any = None, **options: Any
) -> str:
    """A job's id."""
    quick = {"steps": 1, "seconds": 0.0} if kind == "drill" else {}
    submission = Submission(platform, kind, {**quick, **(args or {})}, None, Options(**options))
    submitted = await deployment.producer.submit(submission)
    deployment.accepted.append(submitted.id)
    return submitted.id


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
    return await Transitions(deployment.store).cancel(PlatformKeys(platform), key, more)


def rules(folder: Path, platform: str = PLATFORM, **fields: object) -> str:
    """A configuration file with these rules for one platform."""
    config = folder / "tailrace.toml"
    lines = [f"{name} = {value!r}" for name, value in fields.items()]
    config.write_text("\n".join([f"[platforms.{platform}]", *lines]))
    return str(config)


async def completed(deployment: Deployment, count: int, keys: PlatformKeys = KEYS, seconds: float = 60.0) -> list[str]:
    """The keys of completed jobs in the order of their ends, once there are this many."""

    async def look() -> list[bytes] | None:
        ended: list[bytes] = await deployment.store.command("LRANGE", keys["ended_completed"], 0, -1)
        return ended if len(ended) >= count else None

    found = await eventually(f"{count} jobs are completed", look, seconds=seconds)
    return [key.decode() for key in found or ()]


async def nothing_left(deployment: Deployment, keys: PlatformKeys = KEYS) -> None:
    """No order, no place of a limit key, no job parked: all of it went with its jobs."""
    desk = Desk(deployment.store, keys.platform)

    async def look() -> bool:
        return await desk.leftovers() == [] and not (await desk.look()).leases

    await eventually("nothing is left beside the ended jobs", look)
