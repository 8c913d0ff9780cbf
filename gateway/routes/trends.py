"""The last ten minutes of each platform, as this process sampled them: how many jobs waited, how many ended and how."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

import anyio
from msgspec import Struct
from starlette.requests import Request

from tailrace.gateway.route_table import READ, group, ok
from tailrace.streams.errors import TailraceError
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.policies import Platforms
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.words import Count, Seconds

route = group("platforms")

EVERY_SECONDS = 10.0  # one call to the store for all platforms
SAMPLES = 60  # ten minutes
AT_ONCE = 50  # platforms in one call: a few milliseconds of the server's time at most

Sample = Mapping[str, Tally]  # by platform
OUTCOMES = Tally._fields[1:]


class Trend(Struct, frozen=True):
    """How many waited at each look, and how many ended until it and how, oldest first; null where nothing is known."""

    depth: list[Count | None]
    completed: list[Count | None]
    failed: list[Count | None]
    cancelled: list[Count | None]


class Trends(Struct, frozen=True):
    """The last ten minutes, as this gateway saw them."""

    everySeconds: Seconds
    platforms: dict[str, Trend]


class Sampler:
    """Looks at every platform now and then, whether somebody watches or not: who opens the page sees what was."""

    def __init__(self, transitions: Transitions, platforms: Platforms, every_seconds: float = EVERY_SECONDS) -> None:
        self._transitions = transitions
        self._keys = [PlatformKeys(platform) for platform in platforms]
        self.every_seconds = every_seconds
        self.samples: deque[Sample] = deque(maxlen=SAMPLES + 1)  # one more, to know what ended until the first

    async def run(self) -> None:
        due = time.monotonic()
        while True:
            self.samples.append(await self.look())
            due += self.every_seconds
            while due < time.monotonic():  # a look that was missed is a gap, not a crowd in the next one
                self.samples.append({})
                due += self.every_seconds
            await anyio.sleep(due - time.monotonic())

    async def look(self) -> Sample:
        found: dict[str, Tally] = {}
        for start in range(0, len(self._keys), AT_ONCE):
            keys = self._keys[start : start + AT_ONCE]
            try:
                counts = await self._transitions.tally(keys)
            except TailraceError:  # the store is away, or does not let us in: those who ask hear of it
                return {}
            for each, count in zip(keys, counts, strict=True):
                if not isinstance(count, BrokenOperation):
                    found[each.platform] = count
        return found


class TrendRoutes:
    """The route of these samples."""

    def __init__(self, sampler: Sampler, platforms: Platforms) -> None:
        self._sampler = sampler
        self._platforms = platforms

    @route("GET", "/api/trends", READ, ok("A line for each platform.", Trends), store=False)
    async def list_trends(self, _: Request) -> Trends:
        """How deep the lines were and how many jobs ended, of late."""
        samples = list(self._sampler.samples)
        lines = {platform: line_of(platform, samples) for platform in self._platforms}
        return Trends(self._sampler.every_seconds, lines)


def line_of(platform: str, samples: Sequence[Sample]) -> Trend:
    """Oldest first; None where nothing is known, as after a gap or when the store was emptied in between."""
    tallies = [sample.get(platform) for sample in samples]
    ended = {
        outcome: ([None] * bool(tallies) + [grown(place, *both) for both in pairwise(tallies)])[-SAMPLES:]
        for place, outcome in enumerate(OUTCOMES, 1)
    }
    return Trend([tally and tally.waiting for tally in tallies][-SAMPLES:], **ended)


def grown(place: int, before: Tally | None, after: Tally | None) -> int | None:
    """How many jobs ended between two looks with the outcome at this place of a tally."""
    if before is None or after is None or sum(after[1:]) < sum(before[1:]):
        return None
    return max(0, after[place] - before[place])
