"""Looks at the store again and again, and compares: rules ask what has grown."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from msgspec import Struct

from tailrace.ops.monitoring.rules import MINUTE, OLDEST_SECONDS, RULES, WAITING, Growth, Rule, Sight
from tailrace.streams.errors import StoreError
from tailrace.streams.policies import Platforms
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.health import Health, take_health
from tailrace.streams.views.presence import Presence

LONGEST_SECONDS = 20 * MINUTE  # that is remembered
REFUSED_SECONDS = 10 * MINUTE

Incident = tuple[Rule, str]  # and the platform, or the store


class Findings(Struct, frozen=True):
    """The findings of one look."""

    all: frozenset[Incident]
    ripe: dict[Incident, str]  # with its facts, what has lasted as long as its rule says
    watched_seconds: float  # how far back rules could look


class IncidentWatch:
    """The incidents of now, by every rule."""

    def __init__(
        self,
        transitions: Transitions,
        platforms: Platforms,
        waiting: int = WAITING,
        oldest_seconds: float = OLDEST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self._presence = Presence(transitions, platforms)
        self._limits = {"waiting": waiting, "oldest_seconds": oldest_seconds}
        self._clock = clock
        self._begun = clock()
        self._tallies: deque[tuple[float, Mapping[str, Tally]]] = deque()
        self._refused: dict[tuple[str, str, int], int] | None = None  # by worker, job and attempt
        self._refusals: deque[tuple[float, int]] = deque()
        self._since: dict[tuple[str, str], float] = {}  # since when each incident lasts, also before it is reported

    async def look(self) -> Findings:
        sight = await self._sight()
        now = self._clock()
        found = {(rule, subject): facts for rule in RULES for subject, facts in rule.find(sight)}
        self._since = {(rule.name, subject): self._since.get((rule.name, subject), now) for rule, subject in found}
        ripe = {
            (rule, subject): facts
            for (rule, subject), facts in found.items()
            if now - self._since[rule.name, subject] >= rule.for_seconds
        }
        return Findings(frozenset(found), ripe, now - self._begun)

    async def _sight(self) -> Sight:
        try:
            health = await take_health(self._transitions, self._platforms)
            consumers = await self._presence.see()
            await self._count_refusals()
        except StoreError:
            return Sight(None)
        self._remember(health)
        refused = sum(count for at, count in self._refusals if at >= self._clock() - REFUSED_SECONDS)
        return Sight(health, tuple(consumers), refused, self._grown, **self._limits)  # type: ignore[arg-type] # as named

    def _remember(self, health: Health) -> None:
        now = self._clock()
        self._tallies.append((now, {each.overview.platform: each.tally for each in health.platforms}))
        while self._tallies[0][0] < now - LONGEST_SECONDS:
            self._tallies.popleft()

    def _grown(self, platform: str, seconds: float) -> Growth:
        since = self._clock() - seconds
        tallies = [seen[platform] for at, seen in self._tallies if at >= since and platform in seen]
        if not tallies:
            return Growth()
        first, last = tallies[0], tallies[-1]
        return Growth(*(max(0, getattr(last, name) - getattr(first, name)) for name in Growth.__struct_fields__))

    async def _count_refusals(self) -> None:
        """Workers tell of the last attempts they were refused. What they told before the first look is old."""
        told = {
            (owner, each.job_id, each.attempt): each.writes
            for owner, about in (await self._presence.told()).items()
            for each in about.refused
        }
        if self._refused is not None and (
            more := sum(max(0, writes - self._refused.get(key, 0)) for key, writes in told.items())
        ):
            self._refusals.append((self._clock(), more))
        while self._refusals and self._refusals[0][0] < self._clock() - REFUSED_SECONDS:
            self._refusals.popleft()
        self._refused = (self._refused or {}) | told if len(self._refused or ()) < 10_000 else told
