"""The ticker: submits the jobs of schedules when their ticks come, on every platform its consumer serves.

Any number of tickers may look at the same schedule: the store moves it from one tick to the next once, together with
the tick's job, for whoever comes first. Between ticks a ticker sleeps; it looks up now and then for new schedules.
"""

from collections.abc import Iterator, Sequence
from random import uniform

import anyio
import structlog

from producers.schedules import job_of
from streams.errors import StoreError, WrongField
from streams.keys import PlatformKeys
from streams.messages import Job
from streams.schedules import Agenda, Due, Move, decode_schedule, mark_of, moves
from streams.transitions import TICKS, BrokenOperation, Operation, Transitions, tick

log = structlog.get_logger()

APART_SECONDS = 0.02  # tickers wake this much apart, so that mostly one finds the work and the others find it done
AGAIN_MS = 60_000  # a schedule that cannot be read is looked at again after this time
LEAST_SECONDS = 0.001


class Ticker:
    """Fires what is due."""

    def __init__(self, transitions: Transitions, platforms: Sequence[PlatformKeys], look_seconds: float) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._look_seconds = look_seconds

    async def run(self) -> None:
        while True:
            try:
                pause = await self.round()
            except StoreError:  # away or full: what is missed meanwhile is for each schedule to say
                pause = self._look_seconds
            await anyio.sleep(pause)

    async def round(self) -> float:
        """Look once at all platforms and fire what is due; how long to sleep until the next look."""
        pause = self._look_seconds
        for keys, agenda in zip(self._platforms, await self._transitions.agenda(self._platforms), strict=True):
            if isinstance(agenda, BrokenOperation):
                log.error("schedules_broken", platform=keys.platform, error=str(agenda))
                continue
            fine = not agenda.due or await self._fire(keys, agenda)
            if fine and agenda.due:
                pause = 0.0  # there may be more, and by now other ticks may have come
            elif fine and agenda.next_ms is not None:
                seconds = max(LEAST_SECONDS, (agenda.next_ms - agenda.now_ms) / 1000)
                pause = min(pause, seconds + uniform(0, APART_SECONDS))
        return pause

    async def _fire(self, keys: PlatformKeys, agenda: Agenda) -> bool:
        """Move each schedule that is due; False when the store could not."""
        operations: list[Operation] = []
        for due in agenda.due:
            operations += self._operations(keys, due, agenda.now_ms, TICKS - len(operations))
            if len(operations) >= TICKS:
                break  # the rest is still due at the next look
        fine = True
        for operation, answer in zip(operations, await self._transitions.tick(keys, operations), strict=True):
            if isinstance(answer, BrokenOperation):
                log.error("schedule_broken", platform=keys.platform, schedule=operation.args[0], error=str(answer))
                fine = False
            elif answer[0] in {"conflict", "refused"}:
                why = "its id is taken" if answer[0] == "conflict" else answer[-1]
                log.warning("tick_refused", platform=keys.platform, schedule=operation.args[0], reason=why)
        return fine

    def _operations(self, keys: PlatformKeys, due: Due, now_ms: int, most: int) -> Iterator[Operation]:
        mark = mark_of(due.definition)
        try:
            schedule = decode_schedule(due.definition)
            for move in moves(schedule, due.tick_ms, now_ms, most):
                job, fingerprint = job_of(schedule, move.tick_ms if move.fires_ms is None else move.fires_ms)
                yield tick(keys, due.name, mark, move, job, fingerprint)
        except (WrongField, ValueError) as error:  # somebody else wrote it: it must not hold up the others
            log.error("schedule_broken", platform=keys.platform, schedule=due.name, error=str(error))
            nothing = Job(keys.platform, "unreadable", "unreadable", b"")
            yield tick(keys, due.name, mark, Move(due.tick_ms, None, now_ms + AGAIN_MS), nothing, "")
