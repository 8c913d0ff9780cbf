"""Decides when an owner is lost: on the observer's own clock, and only for as long as it could see the store.

The store's clock may jump and the store may be away for an hour; neither says anything about a worker. So an observer
counts, for each owner, how long it has itself seen the owner's beat counter stand still, and starts again after
every moment in which it could not look.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace


class Silence(Struct, frozen=True):
    """An owner whose counter has stood still since `since`, by the observer's monotonic clock."""

    platform: str
    owner: str
    counter: str
    since: float
    deadline: float  # in seconds: the larger one of the observer's and the owner's, once that is known
    empty: bool = False  # it held nothing when it was last asked for


class Silences:
    """The silences that one observer has seen."""

    def __init__(self, deadline_seconds: float, patience_seconds: float) -> None:
        """A look asked for more than `patience_seconds` after the one before: we were blind in between."""
        self._deadline = deadline_seconds
        self._patience = patience_seconds
        self._looked: float | None = None
        self._silences: dict[tuple[str, str], Silence] = {}

    def blind(self) -> None:
        """A look failed: a counter that stood still may have moved meanwhile."""
        self._looked = None

    def look(self, asked: float, now: float, looks: Mapping[str, Mapping[str, str]]) -> None:
        """Take in the beat counters of each platform as they are now, having asked a little before."""
        before = self._silences if self._sees(asked) else {}
        self._looked = now
        self._silences = {}
        for platform, beats in looks.items():
            for owner, counter in beats.items():
                place = (platform, owner)
                known = before.get(place)
                fresh = Silence(platform, owner, counter, now, self._deadline)
                self._silences[place] = known if known and known.counter == counter else fresh

    def lost(self, now: float) -> list[Silence]:
        """Owners that were silent for their deadline and may hold jobs; none while we cannot see."""
        return [silence for silence in self._silent(now, 1) if not silence.empty]

    def departed(self, now: float) -> list[Silence]:
        """Owners that hold nothing and were silent for three times as long."""
        return [silence for silence in self._silent(now, 3) if silence.empty]

    def heed(self, silence: Silence, deadline: float) -> bool:
        """Its own deadline, now that it is known, may be later than ours; whether its jobs are lost yet."""
        if deadline > silence.deadline:
            silence = self._know(replace(silence, deadline=deadline))
        return self._looked is not None and self._looked >= silence.since + silence.deadline

    def know_empty(self, silence: Silence, empty: bool) -> None:
        """Whether it holds jobs, as it was just asked."""
        self._know(replace(silence, empty=empty))

    @property
    def owners(self) -> int:
        """How many owners beat, on all platforms together."""
        return len(self._silences)

    def next_due(self, now: float) -> float | None:
        """The time at which the next silence reaches its deadline, if no beat comes until then."""
        dues = (silence.since + silence.deadline for silence in self._silences.values())
        return min((due for due in dues if due > now), default=None)

    def _know(self, silence: Silence) -> Silence:
        place = (silence.platform, silence.owner)
        known = self._silences.get(place)
        if known and (known.counter, known.since) == (silence.counter, silence.since):  # else it has beaten meanwhile
            self._silences[place] = silence
        return silence

    def _silent(self, now: float, times: int) -> list[Silence]:
        if not self._sees(now):
            return []
        return [s for s in self._silences.values() if now >= s.since + times * s.deadline]

    def _sees(self, now: float) -> bool:
        return self._looked is not None and now - self._looked <= self._patience
