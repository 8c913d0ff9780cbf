"""How many jobs this process may run at a time: a count that several platforms may share."""

from collections.abc import Callable

Ring = Callable[[], None]


class Room:
    """Slots for running jobs. A caller that found too few is called when some come free."""

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._waiting: list[Ring] = []
        self._locked = False  # a claim, or a job, that must have no other beside it
        self._emptying: list[Ring] = []  # platforms with a job that waits until this is empty

    @property
    def free(self) -> int:
        return 0 if self._locked else self._free

    @property
    def empty(self) -> bool:
        return self._free == self._places

    def take(self, places: int) -> None:
        self._free -= places

    def give(self, places: int) -> None:
        self._free += places
        if self._free == self._places:
            self._locked = False
            for call in self._emptying:
                call()
        if self._waiting and places:
            self._call_waiting()

    def resize(self, places: int) -> None:
        """Change the number of slots; jobs that run beyond it go on."""
        self._free += places - self._places
        self._places = places
        self._call_waiting()

    def lock(self) -> None:
        """Give out no slot until all are free, or until it is unlocked."""
        self._locked = True

    def unlock(self) -> None:
        if self._locked:
            self._locked = False
            self._call_waiting()

    def closed_for(self, ring: Ring) -> bool:
        """Whether this empties for a job of another platform."""
        return bool(self._emptying) and ring not in self._emptying

    def empty_for(self, ring: Ring, wanted: bool) -> None:
        """Note whether a job of a platform waits until nothing else runs here."""
        if wanted and ring not in self._emptying:
            self._emptying.append(ring)
        elif not wanted and ring in self._emptying:
            self._emptying.remove(ring)
            self._call_waiting()

    def call_when_free(self, call: Ring) -> None:
        if call not in self._waiting:
            self._waiting.append(call)

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


class Rooms:
    """The two counts in which a job needs a slot at once: of its process, and of its lane."""

    def __init__(self, process: Room, lane: Room, most: int) -> None:
        self._process = process
        self._rooms = (process, lane)
        self._most = most
        self._taken = 0
        self._invited = False  # whether a job of this platform waits until the process is empty

    def take(self, ring: Ring, wanted: int) -> tuple[int, str]:
        """Take as many slots as there are, up to `wanted` and `most`; when there is none, `ring` is called later.

        Also tells what else runs in the process, as a claim says it: `some`, `none`, or `locked`: nothing, and nothing
        will before the claim is answered.
        """
        places = 0 if self._process.closed_for(ring) else min(wanted, self._most, *(room.free for room in self._rooms))
        if places <= 0:
            for room in self._rooms:
                if room.free <= 0 or room.closed_for(ring):
                    room.call_when_free(ring)
            return 0, "some"
        company = "some"
        if self._process.empty:
            company = "locked" if self._invited else "none"
        self._taken += places
        for room in self._rooms:
            room.take(places)
        if company == "locked":
            self._process.lock()
        return places, company

    def answered(self, word: str, ring: Ring) -> None:
        """Note the answer to a claim: `alone`, `empty` or nothing."""
        self._invited = word == "empty"
        self._process.empty_for(ring, self._invited)
        if word != "alone":
            self._process.unlock()
        if self._invited and self._process.empty:
            ring()

    def give(self, places: int) -> None:
        self._taken -= places
        for room in self._rooms:
            room.give(places)

    def move(self, lane: Room) -> None:
        """Share the slots of another lane from now on: jobs that run count there."""
        if lane is not self._rooms[1]:
            before, self._rooms = self._rooms[1], (self._process, lane)
            lane.take(self._taken)
            before.give(self._taken)
