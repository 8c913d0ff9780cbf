"""Who has run for too long: one timer for all attempts, because one for each would cost more than a short job."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

SPARE = 64  # times that were taken back are tidied away when there are more of them than this and than of the others


class Timers:
    """Calls back at the times it is given, unless they were taken back."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._calls: dict[int, Callable[[], None]] = {}
        self._numbers = count()
        self._handle: asyncio.TimerHandle | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> int:
        """Have `call` called in so many seconds; the answer takes it back."""
        number = next(self._numbers)
        self._calls[number] = call
        heapq.heappush(self._heap, (asyncio.get_running_loop().time() + seconds, number))
        if self._heap[0][1] == number:
            self._wind()
        return number

    def take_back(self, number: int) -> None:
        """Most attempts end long before their time: what was theirs must not be kept until then."""
        if self._calls.pop(number, None) and len(self._heap) > 2 * len(self._calls) + SPARE:
            self._heap = [item for item in self._heap if item[1] in self._calls]
            heapq.heapify(self._heap)
            self._wind()

    def _wind(self) -> None:
        if self._handle:
            self._handle.cancel()
            self._handle = None
        while self._heap and self._heap[0][1] not in self._calls:
            heapq.heappop(self._heap)
        if self._heap:
            self._handle = asyncio.get_running_loop().call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            if call := self._calls.pop(heapq.heappop(self._heap)[1], None):
                call()
        self._wind()
