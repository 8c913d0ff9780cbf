"""Counts of waiting jobs and the list of running ones, straight from the store."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, json

from tailrace.streams.history.events import iso, progress_of
from tailrace.streams.keys import BANDS, PlatformKeys
from tailrace.streams.leases import read_leases
from tailrace.streams.messages import Lease, Record
from tailrace.streams.replies import read_args, read_jobs
from tailrace.streams.states import State
from tailrace.streams.store.connection import Command, Store
from tailrace.streams.store.server import to_ms
from tailrace.streams.views.apart import look_apart
from tailrace.streams.words import Count, JobId, Percent, PlatformName, Seconds, Time

PAGE = 250  # running jobs that are read in one trip


class JobRunning(Struct, frozen=True):
    """A job that has an owner right now."""

    platform: PlatformName
    job_id: JobId
    workflow_id: str
    started_at: Time
    elapsed_seconds: Seconds
    progress: Percent | None


class RunningCounts(Struct, frozen=True):
    running_count: Count
    queued_count: Count


class RunningNow(Struct, frozen=True, omit_defaults=True):
    """The running jobs, and the number of waiting jobs by platform."""

    running: list[JobRunning]
    queued: dict[str, Count]
    summary: RunningCounts
    unavailable: dict[str, str] = {}  # platforms whose node of a cluster does not answer, and why


class Census(NamedTuple):
    """Counts of one moment."""

    running: list[tuple[Record, JobRunning]]
    waiting: dict[str, int]  # platform -> jobs, only where some wait
    unavailable: Mapping[str, str] = {}  # platform -> why its node does not answer: nothing is known of it then

    def shown(self) -> RunningNow:
        """The form of `GET /api/v2/jobs/running` and of `running --json`."""
        counts = RunningCounts(len(self.running), sum(self.waiting.values()))
        return RunningNow([job for _, job in self.running], self.waiting, counts, dict(self.unavailable))


async def take_census(store: Store, platforms: Iterable[str]) -> Census:
    """Count and name. What waits is what is in the queue, has no lease and does not rest until a later time.

    That is right even if a group was rebuilt: a job that rests or runs keeps its entry in the queue.
    """
    looked = await look_apart(store, platforms, lambda group: count_group(store, group))
    running = [job for census in looked.answers for job in census.running]
    waiting = {name: count for census in looked.answers for name, count in census.waiting.items()}
    return Census(running, waiting, {name: str(why) for name, why in looked.down.items()})


async def count_group(store: Store, platforms: Sequence[str]) -> Census:
    all_keys = [store.keys(platform) for platform in platforms]
    commands: list[Command] = [("TIME",)]
    for keys in all_keys:
        commands += [("XLEN", keys.jobs(band)) for band in BANDS]
        commands += [("ZCARD", keys["due"]), ("ZCARD", keys["awaiting"]), ("HLEN", keys["leases"])]
    clock, *replies = await store.commands(commands)
    now_ms = to_ms(clock)
    waiting: dict[str, int] = {}
    found: list[tuple[Record, JobRunning]] = []
    width = len(BANDS) + 3
    for index, keys in enumerate(all_keys):
        *lengths, delayed, awaiting, running = replies[index * width : (index + 1) * width]
        if (count := sum(lengths) - delayed - awaiting - running) > 0:
            waiting[keys.platform] = count
        leases = await read_leases(store, keys) if running else []
        for start in range(0, len(leases), PAGE):
            found += await read_running(store, keys, leases[start : start + PAGE], now_ms)
    return Census(found, waiting)


async def read_running(
    store: Store, keys: PlatformKeys, leases: Sequence[Lease], now_ms: int
) -> list[tuple[Record, JobRunning]]:
    """The jobs of some leases; one may have ended since its lease was seen."""
    jobs = await read_jobs(store, [(keys, lease.key, -2) for lease in leases])
    found = [job for job in jobs if job and job[0].state is State.RUNNING]
    all_args = await asyncio.gather(*(read_args(store, keys, record) for record, _ in found))
    return [
        (
            record,
            JobRunning(
                platform=record.platform,
                job_id=record.id,
                workflow_id=workflow_of(record, args),
                started_at=iso(record.started_ms or 0),
                elapsed_seconds=max(0, now_ms - (record.started_ms or now_ms)) / 1000,
                progress=progress_of(record.attempt, events),
            ),
        )
        for (record, events), args in zip(found, all_args, strict=True)
    ]


def workflow_of(record: Record, args: bytes | None) -> str:
    """The workflow that a job's args name, else its kind."""
    try:
        named = json.decode(args or b"{}", type=_Workflow).workflow_id
    except ValueError:
        named = None
    return named or record.kind


class _Workflow(Struct):
    workflow_id: str | None = None
