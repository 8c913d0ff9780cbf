"""Checks and stores schedules, and makes the job of each tick."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.producers.actions import audit_note
from tailrace.producers.declarations import plain
from tailrace.producers.kinds import ALL_KINDS, Kinds
from tailrace.producers.producer import encode_args, fingerprint
from tailrace.streams.errors import BadConfiguration, ScheduleNotFound, WrongField
from tailrace.streams.history.events import iso
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Job
from tailrace.streams.operations import AuditNote
from tailrace.streams.options import Options
from tailrace.streams.policies import Platforms
from tailrace.streams.schedules import (
    Missed,
    Planned,
    Schedule,
    ScheduleName,
    check_name,
    encode_schedule,
    known_from,
    mark_of,
    next_tick,
    read_schedule,
    read_schedules,
)
from tailrace.streams.transitions import Transitions
from tailrace.streams.validation import field_of
from tailrace.streams.words import PlatformName, Seconds, Time, Word

LARGEST = 64 * 1024  # of a definition: it is read at each of its ticks


class Schedules:
    """Every way in which a schedule may be changed."""

    def __init__(self, transitions: Transitions, platforms: Platforms, kinds: Kinds = ALL_KINDS) -> None:
        self._transitions = transitions
        self._store = transitions.store
        self._platforms = platforms
        self._kinds = kinds

    async def upsert(self, schedule: Schedule, *, by: str | None = None) -> Planned:
        """Keep a schedule, new or changed. Its next tick stays while its times do; one that is paused stays paused.

        What changes a schedule is kept in the audit, with the name of who asked for it, `by`.
        """
        schedule = msgspec.structs.replace(schedule, args=plain(schedule.args))
        check(schedule, self._platforms, self._kinds)

        def merged(known: Schedule | None) -> Schedule:
            return msgspec.structs.replace(schedule, paused=schedule.paused or bool(known and known.paused))

        note = audit_note("schedule", by, schedule=schedule.name)
        return await self._change(self._store.keys(schedule.platform), schedule.name, merged, note)

    async def list(self, platform: str | None = None) -> list[Planned]:
        """The schedules of one platform, or of all."""
        names = list(self._platforms) if platform is None else [self._platforms.known(platform)]
        return await read_schedules(self._store, [self._store.keys(name) for name in names])

    async def get(self, platform: str, name: str) -> Planned:
        keys = self._keys(platform, name)
        _, before, tick_ms = await read_schedule(self._transitions.store, keys, name)
        return Planned(_found(platform, name, known_from(before)), tick_ms)

    async def pause(self, platform: str, name: str, *, by: str | None = None) -> Planned:
        """No more ticks until it is resumed."""
        return await self._set_paused(platform, name, audit_note("pause-schedule", by, schedule=name), paused=True)

    async def resume(self, platform: str, name: str, *, by: str | None = None) -> Planned:
        """Tick again from now on; ticks during the pause are not made up for."""
        return await self._set_paused(platform, name, audit_note("resume-schedule", by, schedule=name), paused=False)

    async def remove(self, platform: str, name: str, *, by: str | None = None) -> None:
        """Remove a schedule; jobs it has submitted stay."""
        keys = self._keys(platform, name)
        note = audit_note("remove-schedule", by, schedule=name)
        if await self._transitions.unschedule(keys, name, note=note) == "missing":
            raise ScheduleNotFound(platform, name)

    async def _set_paused(self, platform: str, name: str, note: AuditNote, *, paused: bool) -> Planned:
        def changed(known: Schedule | None) -> Schedule:
            return msgspec.structs.replace(_found(platform, name, known), paused=paused)

        return await self._change(self._keys(platform, name), name, changed, note)

    async def _change(
        self, keys: PlatformKeys, name: str, change: Callable[[Schedule | None], Schedule], note: AuditNote
    ) -> Planned:
        """Write a changed schedule; try again when another caller has changed it meanwhile."""
        while True:
            now_ms, before, tick_ms = await read_schedule(self._transitions.store, keys, name)
            known = known_from(before)
            wanted = change(known)
            if known is None or not known.same_times(wanted):
                tick_ms = None
            if planned := await self._write(keys, wanted, before, now_ms, tick_ms, note):
                return planned

    async def _write(
        self,
        keys: PlatformKeys,
        wanted: Schedule,
        before: bytes | None,
        now_ms: int,
        tick_ms: int | None,
        note: AuditNote,
    ) -> Planned | None:
        """Replace the definition that was read; None when another caller has changed it. The tick stays."""
        definition = encode_schedule(wanted)
        if definition == before and wanted.paused == (tick_ms is None):
            return Planned(wanted, tick_ms)  # nothing to write
        if wanted.paused and before:  # also when the store is full
            word = await self._transitions.unschedule(keys, wanted.name, mark_of(before), definition, note)
            return Planned(wanted, None) if word == "ok" else None
        next_ms = None if wanted.paused else tick_ms or next_tick(wanted, now_ms)
        if next_ms is None and not wanted.paused:
            raise WrongField("cron", "never fires again")
        word = await self._transitions.schedule(
            keys, wanted.name, mark_of(before), definition, next_ms, keep=tick_ms is not None, note=note
        )
        return None if word == "changed" else Planned(wanted, next_ms)

    def _keys(self, platform: str, name: str) -> PlatformKeys:
        keys = self._store.keys(self._platforms.known(platform))
        check_name(name)
        return keys


def check(schedule: Schedule, platforms: Platforms, kinds: Kinds = ALL_KINDS) -> None:
    """Raise `WrongField` for a job that no consumer could run; the times are checked by `Schedule`."""
    platforms.known(schedule.platform)
    kinds.check(schedule.kind, schedule.args)
    try:
        size = len(encode_schedule(schedule))
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongField("args", f"cannot be written as JSON: {error}") from None
    if size > LARGEST:
        raise WrongField("args", f"a schedule has at most {LARGEST} bytes; keep larger data elsewhere")


def configured(
    schedules: Iterable[Schedule], platforms: Platforms, served: Sequence[str], kinds: Kinds = ALL_KINDS
) -> list[Schedule]:
    """The schedules of a configuration file that are for these platforms, checked."""
    chosen = [schedule for schedule in schedules if schedule.platform in served]
    for schedule in chosen:
        try:
            check(schedule, platforms, kinds)
        except WrongField as error:
            raise BadConfiguration(f"schedule {schedule.name}: {error}") from None
    return chosen


def job_of(schedule: Schedule, tick_ms: int) -> tuple[Job, str]:
    """The job of a tick and its fingerprint; every consumer makes the same one."""
    key = f"{schedule.name}-{tick_ms}"
    job = Job(schedule.platform, key, schedule.kind, encode_args(schedule.args), schedule.options)
    return job, fingerprint(job)


class ScheduleSeen(Struct, frozen=True):
    """A schedule as it is kept; `nextTick` is null while it is paused."""

    name: ScheduleName
    platform: PlatformName
    kind: Word
    args: Any
    options: Options
    cron: str | None
    every_seconds: Seconds | None
    tz: str
    missed: Missed
    paused: bool
    nextTick: Time | None


def describe(planned: Planned) -> ScheduleSeen:
    """A schedule as it is shown, over HTTP and from the command line."""
    said = {name: getattr(planned.schedule, name) for name in ScheduleSeen.__struct_fields__[:-1]}
    return ScheduleSeen(**said, nextTick=None if planned.next_ms is None else iso(planned.next_ms))


def options_of(said: Any) -> Options:
    """The options of each job. Raises `WrongField` naming the field inside `options`."""
    try:
        return msgspec.convert(said, Options)
    except msgspec.ValidationError as error:
        raise WrongField(*field_of(error, "options", Options)) from None
    except WrongField as error:
        raise WrongField(f"options.{error.field}", error.reason) from None


def _found(platform: str, name: str, known: Schedule | None) -> Schedule:
    if known is None:
        raise ScheduleNotFound(platform, name)
    return known
