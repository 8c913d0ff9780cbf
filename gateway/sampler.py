"""Samples of every platform, taken by this process: how many jobs waited, how many had ended and how."""

import time
from collections import deque
from collections.abc import Mapping, Sequence

import anyio

from tailrace.gateway.metrics.beat_watch import BeatWatch
from tailrace.streams.errors import TailraceError
from tailrace.streams.operations import BrokenOperation
from tailrace.streams.policies import Platforms
from tailrace.streams.transitions import Tally, Transitions
from tailrace.streams.views.apart import look_apart

EVERY_SECONDS = 10.0  # one call to the store for all platforms
SAMPLES = 60  # ten minutes

Sample = Mapping[str, Tally]  # by platform


class Sampler:
    """Looks at every platform every few seconds, so that a page that is opened now shows the last minutes too."""

    def __init__(self, transitions: Transitions, platforms: Platforms, every_seconds: float = EVERY_SECONDS) -> None:
        self._transitions = transitions
        self._platforms = platforms
        self.every_seconds = every_seconds
        self.beat_watch = BeatWatch()
        self.samples: deque[Sample] = deque(maxlen=SAMPLES + 1)  # one more, to know what ended until the first

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.beat_watch.run)
            await self._sample()

    async def _sample(self) -> None:
        due = time.monotonic()
        while True:
            self.samples.append(await self.look())
            due += self.every_seconds
            while due < time.monotonic():  # a look that was missed is a gap, not a crowd in the next one
                self.samples.append({})
                due += self.every_seconds
            await anyio.sleep(due - time.monotonic())

    async def look(self) -> Sample:
        try:
            looked = await look_apart(self._transitions.store, self._platforms, self._count)
        except TailraceError:  # the store is away, or refuses our credentials: requests report that
            return {}
        return {platform: tally for counts in looked.answers for platform, tally in counts.items()}

    async def _count(self, platforms: Sequence[str]) -> Sample:
        keys = [self._transitions.store.keys(platform) for platform in platforms]
        counts = await self._transitions.tally(keys)
        found = zip(platforms, counts, strict=True)
        return {platform: count for platform, count in found if not isinstance(count, BrokenOperation)}
