"""Group commit: while calls are under way, what attempts have to say gathers; the next call carries all of it.

There is no timer: a lone event leaves at once, and under load batches grow by themselves. Two calls may be under way,
so that the server works on one while this process works on what the other brought. An attempt waits for each answer
before it says more, so its words never overtake each other. A call whose answer was lost is sent again as it was until
it is answered, because every operation in it may be repeated.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio

from tailrace.streams.errors import AccessDenied, NoStore
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.operations import Operation
from tailrace.streams.process.histogram import SIZES, TRIPS, Histogram
from tailrace.streams.process.logs import get_logger
from tailrace.streams.store.connection import ServerRefusal
from tailrace.streams.transitions import Transitions

log = get_logger()

CALLS_UNDER_WAY = 2
MOST_WORK = 40  # in one call, in ends of jobs: about two milliseconds of the server's time; larger calls save little
WORK = dict.fromkeys(("fail", "delay", "wait", "requeue", "release"), 4.0)  # as many ends take the server as long
WORK |= {"report": 0.5, "join": float(MOST_WORK)}  # a join looks at a page of children
MOST_BYTES = 1024 * 1024
ENDS = {"complete", "fail", "delay", "wait", "requeue", "release"}  # what ends an attempt, and frees its slot
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between tries while the store is away

Heard = Callable[[Any], None]
Said = tuple[Operation, Heard, float]
"""An operation, what gets its answer, and how long it takes, in others of its name."""
Claimer = Callable[[bool], tuple[Operation, Heard] | None]


def work_of(together: Iterable[Said]) -> float:
    return sum(WORK.get(operation.name, 1.0) * times for operation, _, times in together)


class Committer:
    """All that is said to one platform by this process."""

    def __init__(self, transitions: Transitions, keys: PlatformKeys) -> None:
        self.keys = keys
        self.batches = Histogram.over(SIZES)  # operations in each call
        self.trips = Histogram.over(TRIPS)  # seconds until its answer
        self._transitions = transitions
        self._said: list[tuple[Said, ...]] = []  # what stands together goes in one call
        self._work = 0.0  # of all of it, in plain operations
        self._away = False  # the store did not answer, and the log says so
        self._idle: list[asyncio.Future[None]] = []  # senders that wait for something to do

    def say(self, operation: Operation, heard: Heard, times: float = 1, before: Said | None = None) -> None:
        """Send this with the next call, and `before` in the same call before it; `heard` gets the answer.

        `times`: how long it takes, in others of its name.
        """
        said = operation, heard, times
        together = (before, said) if before else (said,)
        self._said.append(together)
        self._work += work_of(together)
        if self._idle:
            self.nudge()

    @property
    def behind(self) -> bool:
        """Whether more is to be said than the next call holds."""
        return self._work > MOST_WORK

    def nudge(self) -> None:
        """Look again whether there is something to say or to claim: one idle sender is enough."""
        while self._idle:
            sender = self._idle.pop()
            if not sender.done():
                sender.set_result(None)
                return

    async def run(self, claim: Claimer) -> None:
        """Send what is said. `claim(settles)` may add a claim to each call; `settles`: the call frees slots."""
        async with anyio.create_task_group() as tasks:
            for _ in range(CALLS_UNDER_WAY):
                tasks.start_soon(self._send_batches, claim)

    async def _send_batches(self, claim: Claimer) -> None:
        while True:
            if batch := self._next(claim):
                answers = await self._send([operation for operation, _ in batch])
                for (_, heard), answer in zip(batch, answers, strict=True):
                    heard(answer)
            else:
                nudged = asyncio.get_running_loop().create_future()
                self._idle.append(nudged)
                await nudged

    def _next(self, claim: Claimer) -> list[tuple[Operation, Heard]]:
        batch: list[tuple[Operation, Heard]] = []
        work, size, settles, taken = 0.0, 0, False, 0
        for together in self._said:
            more = work_of(together)
            for operation, _, _ in together:
                for arg in operation.args:
                    if isinstance(arg, bytes):
                        size += len(arg)
            if batch and (work + more > MOST_WORK or size > MOST_BYTES):
                break
            work, taken = work + more, taken + 1
            for operation, heard, _ in together:
                batch.append((operation, heard))
                settles = settles or operation.name in ENDS
        del self._said[:taken]
        self._work = self._work - work if self._said else 0.0  # no rest of what floats add up to
        claimed = claim(settles)
        return [*batch, claimed] if claimed else batch

    async def _send(self, operations: list[Operation]) -> Sequence[Any]:
        pause = FIRST_PAUSE
        while True:
            begun = time.monotonic()
            try:
                answers = await self._transitions.commit(self.keys, operations)
            except (NoStore, AccessDenied) as error:
                if not self._away:
                    log.warning("store_away", platform=self.keys.platform, error=str(error))
                self._away = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except (ServerRefusal, ValueError, TypeError) as error:
                # The server refuses the call as a whole, or it cannot be packed: half of a surrogate pair is not text.
                # One by one, so that the error reaches only the attempt that it belongs to.
                if len(operations) == 1:
                    return [[b"error", str(error).encode()]]
                return [(await self._send([operation]))[0] for operation in operations]
            else:
                self.trips.observe(time.monotonic() - begun)
                self.batches.observe(len(operations))
                if self._away:
                    log.info("store_back", platform=self.keys.platform)
                self._away = False
                return answers
