"""The client: what contract and README promise to an application, on a real store with a real consumer."""

import dataclasses
import os
import signal
import warnings
from datetime import UTC, datetime, timedelta
from typing import get_type_hints

import msgspec
import pytest

from tailrace import (
    JobCancelled,
    JobFailed,
    JobNotFound,
    OtherBody,
    Schedule,
    Sync,
    Tailrace,
    WrongField,
    WrongState,
)
from tailrace.ops.hints import DEFAULT_DATA as HINTED_DATA
from tailrace.streams.errors import NoConsumer, NoStore
from tailrace.streams.options import JobOptions, Options
from tailrace.streams.process.data_folder import DEFAULT_DATA
from tests.support.deployment import Deployment

DRILL = {"steps": 2, "seconds": 0.01, "result": {"sum": 3}}
FAILS = {"steps": 1, "seconds": 0.01, "fail_times": 9}


class Args(msgspec.Struct):
    steps: int
    seconds: float


@dataclasses.dataclass
class Plain:
    steps: int
    seconds: float


async def test_a_job_is_submitted_followed_and_its_result_awaited(deployment: Deployment) -> None:
    await deployment.consumer("research")
    async with Tailrace(deployment.url) as tr:
        job = await tr.submit("research", "drill", DRILL, id="a")
        assert (job.id, job.status, job.replayed) == ("research.a", "waiting", False)
        seen = [event async for event in tr.follow(job.id)]
        assert [event.status for event in seen] == ["queued", "started", "progress", "progress", "completed"]
        assert await tr.result(job.id, timeout=20) == {"sum": 3}
        assert await tr.history(job.id) == seen
        assert [event async for event in tr.follow(job.id, after=seen[2].id)] == seen[3:]
        told = await tr.get(job.id)
        assert (told.status, told.attempt, told.progress, told.result) == ("completed", 1, 100.0, {"sum": 3})
        again = await tr.submit("research", "drill", DRILL, id="a")
        assert (again.id, again.status, again.replayed) == ("research.a", "completed", True)


async def test_a_failure_and_a_cancelled_job_are_errors_with_their_facts(deployment: Deployment) -> None:
    await deployment.consumer("research")
    async with Tailrace(deployment.url) as tr:
        failing = await tr.submit("research", "drill", FAILS, attempts=1)
        with pytest.raises(JobFailed, match=f"job {failing.id} failed in attempt 1: ") as failed:
            await tr.result(failing.id, timeout=20)
        assert (failed.value.job_id, failed.value.attempt) == (failing.id, 1)
        assert failed.value.traceback
        late = await tr.submit("research", "drill", DRILL, delay_seconds=600)
        assert late.status == "delayed"
        with pytest.raises(TimeoutError, match=f"job {late.id} has not ended within 0.05 s"):
            await tr.result(late.id, timeout=0.05)
        assert (await tr.cancel(late.id, by="ann", reason="too slow")).status == "cancelled"
        with pytest.raises(JobCancelled, match=r"cancelled by ann: too slow$") as cancelled:
            await tr.result(late.id, timeout=20)
        assert (cancelled.value.by, cancelled.value.reason) == ("ann", "too slow")


async def test_jobs_and_platforms_are_acted_on(valkey_url: str) -> None:
    async with Tailrace(valkey_url) as tr:
        job = await tr.submit("research", "drill", DRILL)
        with pytest.raises(WrongState, match="it is waiting, and only a failed or a cancelled job can be retried"):
            await tr.retry(job.id)
        await tr.cancel(job.id)
        assert (await tr.retry(job.id, by="ann")).status == "waiting"
        await tr.cancel(job.id)
        assert (await tr.drop(job.id)).status == "dropped"
        with pytest.raises(JobNotFound):
            await tr.get(job.id)
        assert not (await tr.pause("research", by="ann")).already
        assert (await tr.pause("research", by="bob")).by == "ann"
        assert await tr.resume("research")
        assert not await tr.resume("research")
        with pytest.raises(NoConsumer, match="no consumer serves research"):
            await tr.restart("research")
        assert (await tr.replay("research")).done == 0
        assert await tr.schedules.list() == []


async def test_args_may_be_structs_and_dataclasses_and_times_may_be_datetimes(valkey_url: str) -> None:
    async with Tailrace(valkey_url) as tr:
        first = await tr.submit("research", "drill", Args(2, 0.5), id="a")
        assert (await tr.submit("research", "drill", Plain(2, 0.5), id="a")).id == first.id
        with pytest.raises(OtherBody):
            await tr.submit("research", "drill", Plain(3, 0.5), id="a")
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert (await tr.submit("research", "drill", run_at=tomorrow)).status == "delayed"
        many = await tr.submit_many("research", "drill", [{"steps": n} for n in range(3)])
        assert len({job.id for job in many if not isinstance(job, Exception)}) == 3


@pytest.mark.parametrize(
    ("platform", "kind", "args", "options", "field"),
    [
        ("nowhere", "drill", {}, {}, "platform"),
        ("research", "no kind", {}, {}, "kind"),
        ("research", "drill", {"steps": -1}, {}, "args.steps"),
        ("research", "drill", {"text": object()}, {}, "args"),
        ("research", "drill", {}, {"delay_seconds": -1}, "delay_seconds"),
        ("research", "drill", {}, {"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001 # what must be refused
        ("research", "drill", {}, {"priority": "whenever"}, "priority"),
    ],
)
async def test_what_is_wrong_is_named(
    valkey_url: str, platform: str, kind: str, args: object, options: JobOptions, field: str
) -> None:
    async with Tailrace(valkey_url) as tr:
        with pytest.raises(WrongField) as refused:
            await tr.submit(platform, kind, args, **options)
        assert refused.value.field == field
        job = await tr.submit("research", "drill")
        with pytest.raises(WrongField, match="has no event with this id"):
            await anext(tr.follow(job.id, after="7-1"))


def test_the_blocking_client_has_the_same_names_and_errors(valkey_url: str) -> None:
    with Sync(valkey_url) as tr:
        job = tr.submit("research", "drill", DRILL, delay_seconds=600)
        events = tr.follow(job.id)
        assert next(events).status == "queued"
        assert tr.cancel(job.id, by="ann").status == "cancelled"
        assert [event.status for event in events][-1] == "cancelled"
        with pytest.raises(JobCancelled):
            tr.result(job.id, timeout=5)
        with pytest.raises(WrongField):
            tr.submit("nowhere", "drill")
        assert tr.schedules.list() == []
        nightly = Schedule(name="n", platform="research", kind="drill", args=Args(2, 0.5), cron="0 3 * * *")
        assert tr.schedules.upsert(nightly).schedule.args == {"steps": 2, "seconds": 0.5}
    with pytest.raises(RuntimeError, match="this Sync client is closed"):
        tr.get(job.id)
    missing = {name for name in dir(Tailrace) if not name.startswith("_")} - {*dir(Sync), "over"}
    assert missing == set()


def test_a_blocking_client_without_a_block_opens_itself_in_each_process(valkey_url: str) -> None:
    tr = Sync(valkey_url)
    job = tr.submit("research", "drill", DRILL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: servers do it
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)  # whatever happens, no second test run goes on from here
            code = 0 if tr.get(job.id).status == "waiting" else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert tr.cancel(job.id).status == "cancelled"
    tr.close()


async def test_the_store_is_found_as_the_commands_find_it(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "TAILRACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoStore, match=r"no store is known.* up`, or set REDIS_URL"):
        async with Tailrace(data=str(tmp_path)):
            pass
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("TAILRACE_PLATFORMS", "coupang")
    async with Tailrace() as tr:
        assert (await tr.submit("coupang", "drill")).status == "waiting"
    assert DEFAULT_DATA == HINTED_DATA


def test_every_option_of_a_job_can_be_said() -> None:
    assert get_type_hints(JobOptions).keys() == set(Options.__struct_fields__)
