"""The ticker: submits the jobs of schedules when their ticks come, on every platform its consumer serves.

Any number of tickers may look at the same schedule: the store moves it from one tick to the next once, together with
the tick's job, for the first of them. Between ticks a ticker sleeps; it looks up now and then for new schedules.
A ticker that cannot read a schedule leaves it where it stands: another ticker, newer or better equipped, may read it.
"""

from collections.abc import Iterator, Sequence
from random import uniform

import anyio

from tailrace.producers.schedules import job_of
from tailrace.streams.errors import StoreError, WrongField
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.messages import Job
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.process.logs import get_logger
from tailrace.streams.schedules import Agenda, Due, Move, decode_schedule, mark_of, moves
from tailrace.streams.transitions import TICKS, Tick, Transitions

log = get_logger()

APART_SECONDS = 0.02  # tickers wake this much apart, so that mostly one finds the work and the others find it done
LEAST_SECONDS = 0.001


class Ticker:
    """Fires what is due."""

    def __init__(self, transitions: Transitions, platforms: Sequence[PlatformKeys], look_seconds: float) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._look_seconds = look_seconds
        self._left = {keys.platform: 0 for keys in platforms}  # unreadable schedules before the next page
        self._reported: dict[tuple[str, str], str] = {}  # the definition of each unreadable schedule in the log

    async def run(self) -> None:
        while True:
            try:
                pause = await self.round()
            except StoreError:
                # Unavailable, full, or it refuses our credentials: each schedule says what becomes of missed ticks.
                pause = self._look_seconds
            await anyio.sleep(pause)

    async def round(self) -> float:
        """Look once at all platforms and fire what is due; how long to sleep until the next look."""
        pause = self._look_seconds
        agendas = await self._transitions.agenda([(keys, self._left[keys.platform]) for keys in self._platforms])
        for keys, agenda in zip(self._platforms, agendas, strict=True):
            if isinstance(agenda, BrokenOperation):
                log.error("schedules_broken", platform=keys.platform, error=str(agenda))
                continue
            left = self._left[keys.platform]
            self._left[keys.platform] = 0
            if agenda.due:
                fine, moved, unreadable = await self._fire(keys, agenda)
                if not fine:
                    continue
                behind = agenda.next_ms is not None and agenda.next_ms <= agenda.now_ms
                if behind:
                    self._left[keys.platform] = left + unreadable
                if behind or moved:
                    pause = 0.0  # there may be more, and by now other ticks may have come
                    continue
            if agenda.next_ms is not None:
                seconds = max(LEAST_SECONDS, (agenda.next_ms - agenda.now_ms) / 1000)
                pause = min(pause, seconds + uniform(0, APART_SECONDS))
        return pause

    async def _fire(self, keys: PlatformKeys, agenda: Agenda) -> tuple[bool, int, int]:
        """Move each schedule that is due: whether the store could, how many ticks were due, how many are left."""
        ticks: list[Tick] = []
        unreadable = 0
        for due in agenda.due:
            moving = list(self._ticks(keys, due, agenda.now_ms, TICKS - len(ticks)))
            ticks += moving
            unreadable += not moving
            if len(ticks) >= TICKS:
                break  # the rest is still due at the next look
        fine = True
        for tick, answer in zip(ticks, await self._transitions.tick(keys, ticks), strict=True):
            if isinstance(answer, BrokenOperation):
                log.error("schedule_broken", platform=keys.platform, schedule=tick.schedule, error=str(answer))
                fine = False
            elif answer[0] in {"conflict", "refused"}:
                why = "its id is taken" if answer[0] == "conflict" else answer[-1]
                log.warning("tick_refused", platform=keys.platform, schedule=tick.schedule, reason=why)
        return fine, len(ticks), unreadable

    def _ticks(self, keys: PlatformKeys, due: Due, now_ms: int, most: int) -> Iterator[Tick]:
        mark = mark_of(due.definition)
        if not mark:
            yield clear(keys, due)
            return
        try:
            schedule = decode_schedule(due.definition)
            for move in moves(schedule, due.tick_ms, now_ms, most):
                job, fingerprint = job_of(schedule, move.tick_ms if move.fires_ms is None else move.fires_ms)
                yield Tick(due.name, mark, move, job, fingerprint)
        except (WrongField, ValueError, OverflowError) as error:
            if self._reported.get((keys.platform, due.name)) != mark:
                self._reported[keys.platform, due.name] = mark
                log.error("schedule_unreadable", platform=keys.platform, schedule=due.name, error=str(error))


def clear(keys: PlatformKeys, due: Due) -> Tick:
    """Remove the tick of a schedule that has no definition: `tick` answers `gone`."""
    nothing = Job(keys.platform, "unreadable", "unreadable", b"")
    return Tick(due.name, "", Move(due.tick_ms, None, None), nothing, "")
