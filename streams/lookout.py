"""Looks at a platform's line for jobs that wait, and shares what it saw among all who ask."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from streams.connection import Command, ServerRefusal, Store
from streams.keys import PlatformKeys
from streams.line import Line, labels_of, turns
from streams.messages import Record, decode_event
from streams.policies import Platforms, Policy
from streams.presence import Presence
from streams.states import State, Status
from streams.transitions import BrokenOperation, Transitions
from streams.waiting import Case, Gates, Waiting, explain

log = structlog.get_logger()

LONG = 100  # a longer line is not looked at for each question
KEPT_SECONDS = 0.25  # but so often: with a thousand jobs in it a look takes the server a few milliseconds
SPARED = 20  # while many ask, looks take no more than this part of the time, of the store's and of ours
BURST_SECONDS = 5.0  # and who asks now and then does not notice: so much of that may be owed
OLDEST_SECONDS = 5.0  # however long looks take, nothing older is told


class Sight(NamedTuple):
    """One look at a line."""

    line: Line
    order: list[str]  # who starts when
    places: dict[str, int]
    begun: float
    good_until: float


class Lookout:
    """Why jobs wait, on the platforms of one store."""

    def __init__(self, store: Store, transitions: Transitions, platforms: Platforms, presence: Presence) -> None:
        self._store = store
        self._transitions = transitions
        self._platforms = platforms
        self._presence = presence
        self._sights: dict[str, Sight] = {}
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._paid_at = 0.0  # when the looks so far are no more than their part of the time

    async def explain(
        self, keys: PlatformKeys, record: Record, due_ms: float | None, events: Sequence[bytes]
    ) -> Waiting | None:
        """Why a job waits; None when it does not, or nobody can tell. `events` are the last of its history."""
        if record.state not in {State.WAITING, State.DELAYED}:
            return None
        policy = self._platforms[keys.platform]
        try:
            sight, gates, consumers = await asyncio.gather(
                self._look(keys, policy), self._read_gates(keys, record, policy), self._presence.glance()
            )
            place = sight.places.get(record.key)
            return explain(
                Case(
                    record=record,
                    due_ms=due_ms if record.state is State.DELAYED else None,
                    retrying=is_retrying(events),
                    policy=policy,
                    line=sight.line,
                    place=place,
                    nearest=sight.order[place - 2] if place and place > 1 else None,
                    in_line=len(sight.order),
                    gates=gates,
                    consumers=None if consumers is None else [c for c in consumers if keys.platform in c.platforms],
                )
            )
        except (BrokenOperation, ServerRefusal, ValueError, OverflowError) as error:
            # Somebody spoilt a key of the line, or wrote a number there that is none: the job itself can still be told.
            log.warning("line_broken", platform=keys.platform, error=repr(error))
            return None

    async def _look(self, keys: PlatformKeys, policy: Policy) -> Sight:
        """A look that began after the question; of a long line, or while many ask, one that is a little older."""
        asked = time.monotonic()
        async with self._one_at_a_time[keys.platform]:
            sight = self._sights.get(keys.platform)
            if sight and (sight.begun >= asked or sight.good_until > asked or self._spares(sight, asked)):
                return sight
            begun = time.monotonic()
            line = await self._transitions.line(keys, policy)
            order = turns(line, policy)
            places = {key: place for place, key in enumerate(order, 1)}
            kept = KEPT_SECONDS if len(line.standing) + line.runs > LONG else 0.0
            sight = self._sights[keys.platform] = Sight(line, order, places, begun, begun + kept)
            self._paid_at = max(self._paid_at, begun) + SPARED * (time.monotonic() - begun)
            return sight

    def _spares(self, sight: Sight, asked: float) -> bool:
        """Whether an old look must do: the last ones have taken more than their part of the time."""
        return self._paid_at > asked + BURST_SECONDS and sight.begun > asked - OLDEST_SECONDS

    async def _read_gates(self, keys: PlatformKeys, record: Record, policy: Policy) -> Gates:
        order, limit = labels_of(record.marks)
        told: dict[str, Any] = {}
        commands: dict[str, Command] = {}
        if order:
            commands["head"] = ("ZRANGE", keys.order(order), 0, 0)
            commands["order_running"] = ("HGET", keys["orders"], order)
        if limit:
            commands["limit_running"] = ("HGET", keys["limits"], limit)
            commands["before"] = ("ZRANK", keys.parked(limit), record.key)
            if policy.key_rate:
                commands["counted_ms"] = ("LINDEX", keys.starts(limit), -policy.key_rate)
        if commands:
            told = dict(zip(commands, await self._store.commands(commands.values()), strict=True))
        counted_ms, running = told.get("counted_ms"), told.get("order_running")
        return Gates(
            head=next((key.decode() for key in told.get("head", ())), None),
            order_running=running.decode() if running else None,
            limit_running=int(told.get("limit_running") or 0),
            counted_ms=None if counted_ms is None else float(counted_ms),
            before=told.get("before") or 0,
        )


def is_retrying(events: Sequence[bytes]) -> bool:
    """Whether a delayed job waits because its last attempt failed."""
    for raw in reversed(events):
        with suppress(ValueError):
            return decode_event(raw).status is Status.RETRYING
    return False
