"""How many jobs this process may run at a time: a count that several platforms may share."""

from collections.abc import Callable, Sequence

UNLIMITED = 1 << 30


class Room:
    """Places for running jobs. Whoever found too few is called when some come free."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[Callable[[], None]] = []

    @property
    def free(self) -> int:
        return self._free

    def take(self, places: int) -> None:
        self._free -= places

    def give(self, places: int) -> None:
        self._free += places
        if places and self._waiting:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def call_when_free(self, call: Callable[[], None]) -> None:
        if call not in self._waiting:
            self._waiting.append(call)


class Rooms:
    """Several rooms that a job needs a place in at once: the process's own and its platform's."""

    def __init__(self, rooms: Sequence[Room], most: int) -> None:
        self._rooms = rooms
        self._most = most

    def take(self, short: Callable[[], None]) -> int:
        """Take as many places as there are, up to `most`; when there is none, `short` is called later."""
        places = min(self._most, *(room.free for room in self._rooms))
        if places <= 0:
            for room in self._rooms:
                if room.free <= 0:
                    room.call_when_free(short)
            return 0
        for room in self._rooms:
            room.take(places)
        return places

    def give(self, places: int) -> None:
        for room in self._rooms:
            room.give(places)
