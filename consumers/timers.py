"""Who has run for too long: one timer for all attempts, because one for each would cost more than a short job."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class Timers:
    """Calls back at the times it is given, unless they were taken back."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._off: set[int] = set()
        self._handle: asyncio.TimerHandle | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> int:
        """Have `call` called in so many seconds; the answer takes it back."""
        number = next(self._numbers)
        heapq.heappush(self._heap, (asyncio.get_running_loop().time() + seconds, number, call))
        if self._heap[0][1] == number:
            self._wind()
        return number

    def take_back(self, number: int) -> None:
        self._off.add(number)

    def _wind(self) -> None:
        if self._handle:
            self._handle.cancel()
            self._handle = None
        while self._heap and self._heap[0][1] in self._off:
            self._off.discard(heapq.heappop(self._heap)[1])
        if self._heap:
            self._handle = asyncio.get_running_loop().call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            _, number, call = heapq.heappop(self._heap)
            if number in self._off:
                self._off.discard(number)
            else:
                call()
        self._wind()
