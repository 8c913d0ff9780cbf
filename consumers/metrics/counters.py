"""Counters of a consumer: plain numbers, so that a job costs no look-up of labels."""

from collections.abc import Iterable

from msgspec import Struct, field

from tailrace.streams.process.histogram import SECONDS, SIZES, TRIPS, Histogram

MOST_FAILURES = 100  # pairs of kind and error type that are told apart on a platform
LONGEST_LABEL = 64
OTHER = "other"


class PlatformCounters(Struct, array_like=True):
    """One platform in this process, since it started."""

    platform: str
    started: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)  # attempts that are over
    failures: dict[str, dict[str, int]] = field(default_factory=dict)  # kind -> type of the error -> attempts
    refused: int = 0  # writes that the fence refused
    waits: Histogram = field(default_factory=lambda: Histogram.over(SECONDS))
    runs: Histogram = field(default_factory=lambda: Histogram.over(SECONDS))
    batches: Histogram = field(default_factory=lambda: Histogram.over(SIZES))
    trips: Histogram = field(default_factory=lambda: Histogram.over(TRIPS))
    slots: int = 0
    slots_used: int = 0

    def end(self, outcome: str) -> None:
        """An attempt is over."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def fail(self, kind: str, error: str) -> None:
        """An attempt failed. Clients choose kinds and handlers choose types of errors, so their number is bounded."""
        kind, error = kind[:LONGEST_LABEL], error[:LONGEST_LABEL]
        known = error in self.failures.get(kind, ())
        if not known and sum(map(len, self.failures.values())) >= MOST_FAILURES:
            kind = error = OTHER
        errors = self.failures.setdefault(kind, {})
        errors[error] = errors.get(error, 0) + 1


class HeartCounters(Struct):
    """The counters of the heart itself."""

    beats: int = 0
    beats_failed: int = 0
    reclaimed: dict[str, int] = field(default_factory=dict)  # by platform: jobs taken from consumers that fell silent


class ConsumerCounters(dict[str, PlatformCounters]):
    """The counters of each platform."""

    def __missing__(self, platform: str) -> PlatformCounters:
        self[platform] = PlatformCounters(platform)
        return self[platform]


def summed(histograms: Iterable[Histogram], bounds: tuple[float, ...]) -> Histogram:
    """The sum of all platforms."""
    total = Histogram.over(bounds)
    for each in histograms:
        total.counts = [ours + theirs for ours, theirs in zip(total.counts, each.counts, strict=True)]
        total.total += each.total
    return total
