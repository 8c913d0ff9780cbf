"""Retention by the heart's timer: ended jobs go by age and number, and then nothing of them is left."""

import asyncio
from pathlib import Path

from tailrace.producers import Submission
from tailrace.streams.keys import PlatformKeys, split_id
from tailrace.streams.options import Dedupe
from tailrace.streams.policies import Policy
from tailrace.streams.states import Status
from tailrace.streams.transitions import Forgotten, Transitions
from tests.life.asking import ask, cancel, completed, happened, rules
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

PLATFORM = "research"
KEYS = PlatformKeys(PLATFORM)

AGE = """
for _, key in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  redis.call('HINCRBY', ARGV[1] .. key, 'ended_ms', -ARGV[2])
end"""


async def let_time_pass(deployment: Deployment, seconds: int) -> None:
    """As if all completed jobs had ended that much earlier."""
    await deployment.store.command("EVAL", AGE, 1, KEYS["ended_completed"], KEYS.record(""), seconds * 1000)


async def job_keys(deployment: Deployment) -> int:
    """How many keys there are beside those that a platform has once a consumer serves it."""
    served = ("idle", "called", "events", "control", "beats", "consumers", "jobs_normal", "ended_completed")
    shared = {KEYS[name].encode() for name in served}
    cursor, found = b"0", set[bytes]()
    while True:
        cursor, names = await deployment.store.command("SCAN", cursor, "COUNT", 2000)
        found.update(names)
        if cursor == b"0":
            return len(found - shared)


async def memory(deployment: Deployment) -> int:
    await deployment.store.command("MEMORY", "PURGE")
    lines = (await deployment.store.command("INFO", "memory")).decode().splitlines()
    return int(next(line for line in lines if line.startswith("used_memory:")).partition(":")[2])


async def drop_feed(deployment: Deployment) -> None:
    """As if a quiet minute had passed: the live feed keeps no more."""
    await deployment.store.command("XTRIM", KEYS["events"], "MAXLEN", 0)


async def forget_all(deployment: Deployment) -> None:
    forgotten = Forgotten(0, more=True)
    while forgotten.more:
        (forgotten,) = await Transitions(deployment.store).forget([(KEYS, Policy())])


async def kept(deployment: Deployment, most: int) -> None:
    async def look() -> bool:
        length: int = await deployment.store.command("LLEN", KEYS["ended_completed"])
        return length <= most

    await eventually(f"at most {most} are kept", look, seconds=40)


async def test_ten_thousand_jobs_leave_a_hundred_and_these_leave_nothing(deployment: Deployment) -> None:
    await deployment.consumer(PLATFORM)
    first = await ask(deployment, PLATFORM)
    await deployment.ended(first)
    await drop_feed(deployment)
    before = await memory(deployment)

    await deployment.producer.submit_many([Submission(PLATFORM, "drill", {"steps": 0}) for _ in range(10_000)])
    assert len(await completed(deployment, 10_001)) == 10_001, "none of them ended more than a minute ago"
    full = await memory(deployment)
    await let_time_pass(deployment, 61)
    await kept(deployment, 100)
    assert await deployment.store.command("LLEN", KEYS["ended_completed"]) == 100
    assert await job_keys(deployment) == 2 * 100, "a record and a log each"

    await let_time_pass(deployment, 3600)
    await forget_all(deployment)  # without waiting for the timer
    assert await job_keys(deployment) == 0
    await drop_feed(deployment)
    after = await memory(deployment)
    assert full > 2 * before
    assert after < 1.1 * before, f"{before} bytes before, {full} with all of them, {after} after"


async def test_the_timer_forgets_what_has_ended_although_nothing_else_happens(
    deployment: Deployment, tmp_path: Path
) -> None:
    config = rules(tmp_path, keep_completed_seconds=1.0, keep_failed_seconds=1.0)
    gateway, _ = await asyncio.gather(deployment.gateway(), deployment.consumer(PLATFORM, TAILRACE_CONFIG=config))
    everything = {"order_key": "o", "limit_key": "l", "expires_at": "2099-01-01T00:00:00Z"}
    done = await ask(deployment, PLATFORM, dedupe=Dedupe("d"), **everything)
    failed = await ask(deployment, PLATFORM, args={"fail_times": 9}, attempts=1, **everything)
    own = await ask(deployment, PLATFORM, args={"fail_times": 9}, attempts=1, keep_seconds=3600)
    delayed = await ask(deployment, PLATFORM, delay_seconds=3600)
    broken = await ask(deployment, PLATFORM, args={"fail_times": 1, "seconds": 60}, attempts=1)
    cancelled = await ask(
        deployment, PLATFORM, delay_seconds=3600, dedupe=Dedupe("d", "throttle", 3600.0), **everything
    )
    running = await ask(deployment, PLATFORM, args={"seconds": 60})
    await cancel(deployment, cancelled)
    await happened(deployment, own, Status.FAILED)
    await happened(deployment, broken, Status.FAILED)
    assert await Transitions(deployment.store).reopen(KEYS, split_id(broken)[1]) == "ok"

    async def gone() -> bool:
        replies = [await deployment.http.get(f"{gateway.url}/api/jobs/{job}") for job in (done, failed, cancelled)]
        assert all(reply.status_code in (200, 404) for reply in replies)
        return all(reply.status_code == 404 and reply.json()["code"] == "JOB_NOT_FOUND" for reply in replies)

    await eventually("the gateway knows none of them", gone)
    for job, status in ((own, "failed"), (delayed, "delayed"), (running, "active"), (broken, "active")):
        reply = await deployment.http.get(f"{gateway.url}/api/jobs/{job}")
        assert reply.json()["data"]["status"] == status
    names = [name.decode() for name in await deployment.store.command("KEYS", "*")]
    ended = [split_id(job)[1] for job in (done, failed, cancelled)]
    assert [name for name in names if any(key in name for key in ended)] == []
    assert [name for name in names if "dedupe" in name or "order" in name or "limits" in name] == []
    assert await deployment.store.command("ZCARD", KEYS["alarms"]) == 0
    history = await deployment.http.get(f"{gateway.url}/research/history/{done}")
    assert history.status_code == 404
    anew = Submission(PLATFORM, "drill", {"steps": 2}, split_id(done)[1])
    assert not (await deployment.producer.submit(anew)).replayed, "a forgotten id may be used again"
