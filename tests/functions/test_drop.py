"""drop: nothing is left of a failed or cancelled job that nobody wants."""

import time
from datetime import UTC, datetime

import pytest

from tailrace.streams.errors import JobNotFound
from tailrace.streams.options import Dedupe
from tests.support.builders import Desk, forget_scripts, untouched

SHARED = ("idle", "called", "events", "control", "jobs_normal", "beats")  # of the platform, whoever its jobs are


async def keys_left(desk: Desk) -> set[str]:
    found = {key.decode() for key in await desk.store.command("KEYS", "*")}
    return found - {desk.keys[name] for name in SHARED}


async def submit(desk: Desk, key: str, mode: str = "until_done") -> None:
    """A job with something at every place a job can have something at."""
    until = datetime.fromtimestamp(time.time() + 3600, UTC).isoformat()
    ttl = 3600.0 if mode == "throttle" else None
    await desk.submit(
        key,
        args=b'"' + b"x" * 9000 + b'"',
        order_key="o",
        limit_key="l",
        keep_seconds=9,
        expires_at=until,
        dedupe=Dedupe("d", mode, ttl),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("mode", ["until_done", "throttle"])
@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_no_key_of_a_dropped_job_is_left(desk: Desk, end: str, mode: str) -> None:
    await submit(desk, "a", mode)
    if end == "failed":
        (held,) = await desk.claim()
        await desk.fail(held)
    else:
        await desk.cancel("a")
    assert await desk.transitions.drop(desk.keys, "a") == "ok"
    assert await keys_left(desk) == set()
    with pytest.raises(JobNotFound):
        await desk.record("a")
    assert await desk.transitions.drop(desk.keys, "a") == "missing"


async def test_the_key_of_a_newer_job_is_left_alone(desk: Desk) -> None:
    await submit(desk, "a")
    (held,) = await desk.claim()
    await desk.fail(held)
    await submit(desk, "b")
    await desk.transitions.drop(desk.keys, "a")
    assert (await desk.store.command("GET", desk.keys.dedupe("d"))).decode() == "b"


@pytest.mark.parametrize("state", ["waiting", "delayed", "running", "completed"])
async def test_a_job_that_lives_or_is_done_is_not_dropped(desk: Desk, state: str) -> None:
    await desk.submit("a", delay_seconds=60.0 if state == "delayed" else None)
    if state in ("running", "completed"):
        (held,) = await desk.claim()
        if state == "completed":
            await desk.complete(held)
    async with untouched(desk.store):
        assert await desk.transitions.drop(desk.keys, "a") == state


async def test_a_dropped_id_may_be_used_again(desk: Desk) -> None:
    await desk.submit("a")
    await desk.cancel("a")
    await forget_scripts(desk.store)
    await desk.transitions.drop(desk.keys, "a")
    assert await desk.submit("a", args=b"[]") == [["accepted", "waiting"]]
    assert [held.args for held in await desk.claim(slots=9)] == [b"[]"]
