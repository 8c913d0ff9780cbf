"""When is an owner lost? Decided on the observer's own clock, and only for as long as it could see the store.

The store's clock may jump and the store may be away for an hour; neither says anything about a worker. So an observer
counts, for each lease, how long it has itself seen the owner's beat counter stand still, and starts again after
every moment in which it could not look.
"""

from collections.abc import Iterator

from msgspec import Struct

from streams.messages import Lease, Look


class Silence(Struct, frozen=True):
    """One lease whose owner's counter has stood still since `since`, by the observer's monotonic clock."""

    platform: str
    lease: Lease
    counter: str
    since: float


class Silences:
    """What one observer knows of others."""

    def __init__(self, deadline_seconds: float, patience_seconds: float) -> None:
        """A look asked for more than `patience_seconds` after the one before: we were blind in between."""
        self._deadline = deadline_seconds
        self._patience = patience_seconds
        self._looked: float | None = None
        self._silences: dict[tuple[str, str], Silence] = {}
        self._idle: dict[tuple[str, str], tuple[str, float]] = {}  # owners without leases: their counter, since when

    def blind(self) -> None:
        """A look failed: whatever stood still may have moved meanwhile."""
        self._looked = None

    def look(self, asked: float, now: float, looks: dict[str, Look]) -> None:
        """Take in what is seen now of each platform, having asked a little before."""
        blind = self._looked is None or asked - self._looked > self._patience
        self._looked = now
        before, idle = ({}, {}) if blind else (self._silences, self._idle)
        self._silences, self._idle = {}, {}
        for platform, seen in looks.items():
            for lease in seen.leases:
                counter = seen.beats.get(lease.owner, "")
                known = before.get((platform, lease.nonce))
                since = known.since if known and known.counter == counter else now
                self._silences[platform, lease.nonce] = Silence(platform, lease, counter, since)
            holders = {lease.owner for lease in seen.leases}
            for owner, counter in seen.beats.items():
                if owner not in holders:
                    past = idle.get((platform, owner))
                    self._idle[platform, owner] = past if past and past[0] == counter else (counter, now)

    def lost(self, now: float) -> list[Silence]:
        """Leases whose owners were silent for the longer of their own deadline and the observer's."""
        return [s for s in self._silences.values() if now >= self._due(s)]

    def departed(self, now: float) -> Iterator[tuple[str, str, str]]:
        """Platform, owner and counter of those who hold nothing and fell silent."""
        for (platform, owner), (counter, since) in self._idle.items():
            if now >= since + 3 * self._deadline:
                yield platform, owner, counter

    def next_due(self) -> float | None:
        """When the earliest silence becomes too long, if nothing stirs until then."""
        return min(map(self._due, self._silences.values()), default=None)

    def _due(self, silence: Silence) -> float:
        return silence.since + max(self._deadline, silence.lease.deadline_seconds)
